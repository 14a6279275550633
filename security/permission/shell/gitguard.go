package shell

import "strings"

// gitGuard: what runs programs that a repository or an argument names, or writes where one says.
var gitGuard = guard{
	subs: map[string]guard{
		"": {short: "cp", long: []string{"config-env", "exec-path", "paginate", "git-dir", "super-prefix"}, valued: "C", longs: []string{"work-tree", "namespace", "attr-source"}},
		"*": {long: []string{"upload-pack", "receive-pack", "exec", "ext-diff", "textconv", "output", "open-files-in-pager", "output-directory", "extcmd", "config-env", "exec-path"},
			exact: []string{"text"}, valued: "mFCc", longs: []string{"message", "author", "date", "file", "grep", "format", "since", "until", "before", "after", "pretty", "max-count"}},
		"grep":  {short: "O", valued: "ABCefm"},
		"log":   {valued: "nSGL", longs: []string{"grep", "author", "since"}},
		"diff":  {valued: "SGUO"},
		"clone": {short: "uc", long: []string{"config", "template", "upload-pack"}, valued: "bojs", longs: []string{"branch", "depth", "origin"}, check: transport},
		"init":  {long: []string{"template", "separate-git-dir"}},
		"fetch": {valued: "joO", check: transport}, "pull": {valued: "sSX", check: transport}, "push": {valued: "o", check: transport}, "ls-remote": {valued: "o", check: transport},
		"fetch-pack": {check: transport}, "send-pack": {check: transport}, "remote": {check: transport},
		"submodule--helper": {words: []string{"foreach"}}, "submodule": {words: []string{"foreach"}, check: transport},
		"archive":      {short: "o", long: []string{"remote", "output", "exec"}, check: transport},
		"format-patch": {short: "o", long: []string{"output-directory", "signature-file"}},
		"bisect":       {words: []string{"run", "visualize", "view"}},
		"rebase":       {short: "x", long: []string{"exec"}, valued: "sXC"},
		"config":       {},
		"cat-file":     {long: []string{"filters"}},
		"bundle":       {words: []string{"create"}},
		"apply":        {long: []string{"unsafe-paths", "directory"}},
		"commit":       {valued: "mFCct", longs: []string{"message", "file", "author", "date", "trailer", "fixup", "squash", "reuse-message"}},
		"tag":          {valued: "mFu"}, "stash": {valued: "m"}, "merge": {valued: "mFsX"}, "notes": {valued: "mFCc"}, "blame": {valued: "LSM"}, "show": {valued: "nSG"}, "branch": {valued: "u"}, "checkout": {valued: "bB"}, "switch": {valued: "cC"},
		"interpret-trailers": {long: []string{"in-place"}}, "help": {short: "wi", long: []string{"web", "info"}}, "update-index": {long: []string{"fsmonitor"}}, "rev-list": {}, "range-diff": {},
		"maintenance": {words: []string{"start", "register"}}, "sparse-checkout": {}, "worktree": {}, "hash-object": {},
	},
	banned: []string{"filter-branch", "difftool", "mergetool", "instaweb", "web--browse", "send-email", "daemon", "shell", "cvsserver", "p4", "svn", "remote-ext", "remote-fd", "credential", "fsmonitor--daemon", "hook", "gui", "citool", "for-each-repo", "imap-send", "http-backend", "request-pull", "quiltimport", "archimport", "cvsimport", "cvsexportcommit", "upload-pack", "receive-pack", "upload-archive", "mergetool--lib", "sh-setup", "filter-repo", "bugreport", "diagnose", "scalar", "gitk"},
}

// transport: x::y runs git-remote-x.
func transport(v string) string {
	if name, _, ok := strings.Cut(v, "::"); ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._") == "" {
		return "its remote runs a program (" + v + ")"
	}
	return ""
}

// gitGlobals are git's options with a value before the sub-command.
var gitGlobals = map[string]bool{"-C": true, "-c": true, "--git-dir": true, "--work-tree": true, "--namespace": true, "--super-prefix": true, "--config-env": true, "--attr-source": true, "--exec-path": false}

// gitConfig: reading is covered, writing is not: core.pager and its like are run.
func gitConfig(args []Word) string {
	operands, reads := 0, false
	for i, w := range args {
		switch {
		case w.Dynamic:
			return "it may write git's configuration"
		case strings.HasPrefix(w.Text, "--get"), w.Is("--list"), w.Is("-l"):
			reads = true
		case w.Is("get"), w.Is("list"):
			if i == 0 || operands == 0 {
				reads = true
			}
		case w.Is("--show-origin"), w.Is("--show-scope"), w.Is("--global"), w.Is("--local"), w.Is("--system"), w.Is("--worktree"), w.Is("--name-only"), w.Is("-z"), w.Is("--null"), w.Is("--includes"), w.Is("--no-includes"), w.Is("--all"), w.Is("--regexp"),
			strings.HasPrefix(w.Text, "--type="), strings.HasPrefix(w.Text, "--default="), w.Is("--bool"), w.Is("--int"), w.Is("--path"):
		case strings.HasPrefix(w.Text, "-"):
			return "it may write git's configuration"
		default:
			operands++
		}
	}
	if reads || operands <= 1 {
		return ""
	}
	return "it writes git's configuration"
}
