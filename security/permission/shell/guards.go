package shell

import (
	"slices"
	"strings"
)

// guard says which arguments make a program run or write something that a prefix rule for it does not
// cover, unless the rule spells them (security.md 2.3).
type guard struct {
	// short are the letters of options that are not covered; long the long ones, which programs take
	// abbreviated too; single are whole words with one dash, as of find and go.
	short  string
	long   []string
	single []string
	// output are letters and long options which are followed by a file to write: /dev/null and - are fine.
	output string
	outs   []string
	// valued are letters of options with a value, longs long ones: their values are not looked at.
	valued string
	longs  []string
	// follow are words of single's kind that take the next word as a value.
	follow []string
	// exact are long options that are fine although they begin like one that is not.
	exact []string
	// words are operands that are not covered, wherever they stand.
	words []string
	// subs are guards for what follows a sub-command, "" for what precedes it and "*" for every one.
	// Nothing of a sub-command in banned is covered.
	subs   map[string]guard
	banned []string
	// operands is how many operands are covered; 0 any number.
	operands int
	// check looks at an operand, and at a value of an option with "OPTION=" before it.
	check func(value string) string
	// bundled says that the first word is options even without a dash, as of tar.
	bundled bool
	// leading says that nothing behind the first operand is an option.
	leading bool
	// dashes says that the program has no --.
	dashes bool
}

// guards is the one place that knows them. Add a line to make a program known; any line makes a word
// that only the shell knows, and that might be an option, a question.
var guards = map[string]guard{
	"find": {single: []string{"-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-exec", "-execdir", "-ok", "-okdir"}, dashes: true,
		follow: []string{"-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-type", "-maxdepth", "-mindepth", "-newer", "-mtime", "-mmin", "-atime", "-ctime", "-size", "-user", "-group", "-perm", "-lname", "-links", "-inum", "-fstype", "-samefile", "-printf"}},
	"rg": {short: "z", long: []string{"pre", "hostname-bin", "search-zip"}, exact: []string{"pretty"}, valued: "ABCEMTdefgjmrt", longs: []string{"regexp", "glob", "type", "max-count", "context"}},
	"fd": {short: "xX", long: []string{"exec", "exec-batch"}, valued: "EdeStocj", longs: []string{"extension", "exclude", "type"}, exact: []string{"exclude", "extension"}},
	"ag": {long: []string{"pager"}}, "ack": {long: []string{"pager", "ackrc", "output"}}, "bat": {long: []string{"pager", "paging"}}, "batcat": {long: []string{"pager", "paging"}}, "delta": {long: []string{"pager"}},
	"sort": {output: "o", outs: []string{"output"}, long: []string{"compress-program"}, valued: "STkt", longs: []string{"key", "field-separator"}},
	"shuf": {output: "o", outs: []string{"output"}, valued: "ein"}, "iconv": {output: "o", outs: []string{"output"}, valued: "ft"},
	"tree": {output: "o", valued: "LPI", exact: []string{}}, "column": {valued: "stcoNHERWTC"},
	"tar":    {short: "IF", long: []string{"use-compress-program", "to-command", "checkpoint-action", "rmt-command", "rsh-command", "info-script", "new-volume-script"}, valued: "fCTXbHKNLVg", exact: []string{"checkpoint"}, bundled: true},
	"bsdtar": {short: "I", long: []string{"use-compress-program"}, valued: "fCTX", bundled: true}, "cpio": {long: []string{"rsh-command", "to-stdout"}, short: "OI"},
	"man": {short: "PHCEpltTZ", long: []string{"pager", "html", "config-file", "preprocessor", "gxditview", "troff-device", "ditroff"}}, "info": {short: "o", long: []string{"output", "init-file", "restore"}},
	"split": {long: []string{"filter"}, valued: "abClnt"}, "csplit": {valued: "bfn"},
	"rsync": {short: "eM", long: []string{"rsh", "rsync-path", "daemon", "remote-option", "log-file", "write-batch", "only-write-batch", "read-batch", "partial-dir", "backup-dir", "config", "dparam", "early-input"}, valued: "fBT", exact: []string{"partial", "backup"}},
	"ssh":   {short: "oFLRDEwSWJMI", valued: "bcilmpeQ"}, "scp": {short: "oSFJD", valued: "cilPX"}, "sftp": {short: "oSFJDb", valued: "BcilPRX"}, "ssh-keygen": {short: "DYfW"}, "ssh-add": {short: "sS"}, "sshpass": {short: "fd"},
	"zip": {short: "TO", long: []string{"test", "unzip-command", "out", "output-file"}, single: []string{"-TT"}, valued: "bnt", longs: []string{"exclude", "include"}}, "unzip": {}, "7z": {}, "7za": {},
	"less": {short: "oOkTt", long: []string{"log-file", "LOG-FILE", "lesskey-file", "lesskey-src", "lesskey-content", "tag", "tag-file"}, check: plus, valued: "bhjpPxyzD#"}, "more": {check: plus}, "most": {}, "pg": {},
	"curl": {short: "KTFJOEPx", output: "oDc", outs: []string{"output", "dump-header", "cookie-jar", "trace", "trace-ascii", "stderr", "libcurl", "etag-save", "hsts", "alt-svc"},
		long:   []string{"config", "upload-file", "form", "remote-header-name", "remote-name", "remote-name-all", "cert", "key", "engine", "output-dir", "create-dirs", "netrc-file", "unix-socket", "abstract-unix-socket", "proxy", "preproxy", "socks5", "socks4", "socks5-hostname", "socks4a", "resolve", "connect-to", "doh-url", "interface", "quote", "ftp-port", "skip-existing", "dns-servers", "variable", "expand-data", "expand-output", "expand-url", "data-binary@", "ssl-sessions", "keylog"},
		valued: "AHXdewmubrCQtyYz", longs: []string{"header", "data", "data-raw", "data-binary", "data-urlencode", "data-ascii", "json", "request", "user-agent", "write-out", "url", "max-time", "connect-timeout", "retry", "user", "referer", "cookie", "url-query"}, check: curlValue, exact: []string{"create-file-mode", "form-escape", "keepalive", "retry", "http1.1", "http2"}},
	"wget":   {short: "eiPaxBcKNrpm", output: "Oo", outs: []string{"output-document", "output-file"}, long: []string{"use-askpass", "execute", "post-file", "body-file", "input-file", "config", "directory-prefix", "append-output", "save-cookies", "load-cookies", "warc-file", "warc-dedup", "rejected-log", "hsts-file", "certificate", "private-key", "ca-certificate", "mirror", "recursive", "base"}, valued: "tTUQwA"},
	"wget2":  {short: "eiPa", output: "Oo", outs: []string{"output-document", "output-file"}, long: []string{"use-askpass-command", "execute", "post-file", "body-file", "input-file", "config", "directory-prefix"}},
	"aria2c": {short: "diSo", long: []string{"on-", "conf-path", "input-file", "dir", "out", "save-session", "hook"}}, "httpie": {short: "od", long: []string{"output", "download"}}, "http": {short: "od", long: []string{"output", "download", "session"}}, "xh": {short: "od", long: []string{"output", "download"}},
	"go": {single: []string{"-toolexec", "-exec", "-vettool", "-overlay", "-modfile", "-gccgoflags", "-compiler", "-pkgdir", "-modcacherw", "-work", "-fixtool"}, check: linker, dashes: true,
		subs: map[string]guard{"env": {short: "wu"}, "fmt": {}, "tool": {}, "telemetry": {operands: 1}, "bug": {}}, banned: []string{"bug"}},
	"npm":  {long: []string{"script-shell", "node-options", "userconfig", "globalconfig", "prefix", "shell", "git", "call", "init-module", "cafile", "editor", "viewer", "browser", "ignore-scripts=false"}, banned: []string{"exec", "x", "explore", "edit", "set", "create", "init", "innit", "set-script"}, subs: map[string]guard{"config": {words: []string{"set", "edit", "delete", "fix"}}, "c": {words: []string{"set", "edit", "delete"}}, "pkg": {words: []string{"set", "delete", "fix"}}}, short: "c", exact: []string{"global"}},
	"pnpm": {long: []string{"script-shell", "node-options", "shell", "config."}, banned: []string{"exec", "dlx", "create", "init", "setup"}, subs: map[string]guard{"config": {words: []string{"set", "delete"}}}, short: "c"},
	"yarn": {long: []string{"script-shell", "use-yarnrc", "node-options"}, banned: []string{"exec", "dlx", "create", "init", "node", "plugin"}, subs: map[string]guard{"config": {words: []string{"set", "unset", "delete"}}}},
	"git":  gitGuard,
	"sed":  {short: "if", long: []string{"in-place", "file"}, valued: "el", longs: []string{"expression", "line-length"}, check: nil},
	"awk":  awkGuard, "gawk": awkGuard, "mawk": awkGuard, "nawk": awkGuard,
	"uniq": {operands: 1, valued: "fsw"}, "xxd": {operands: 1, valued: "closgRn"}, "ptx": {operands: 1}, "base64": {}, "uuencode": {},
	"test": {single: []string{"-v", "-R"}, dashes: true}, "[": {single: []string{"-v", "-R"}, dashes: true}, "printf": {short: "v", leading: true},
	"file": {short: "C", long: []string{"compile"}, valued: "mfFeP"}, "date": {short: "s", long: []string{"set"}, valued: "dr"}, "hostname": {short: "F", operands: -1}, "env": {}, "tee": {}, "xargs": {},
	"diff": {short: "l", long: []string{"paginate"}, valued: "IUCxXFSDW"}, "patch": {short: "ord", long: []string{"output", "reject-file", "directory"}, valued: "piV"}, "ed": {},
	"make": {short: "fE", long: []string{"file", "makefile", "eval", "include-dir"}, valued: "jlCWo", check: makeValue}, "gmake": {short: "fE", long: []string{"file", "makefile", "eval"}, valued: "jlCWo", check: makeValue}, "ninja": {short: "f"}, "just": {short: "fd", long: []string{"justfile", "shell", "working-directory", "set", "command"}},
	"cmake": {short: "PEDC", long: []string{"build", "install", "open"}}, "ctest": {short: "S"}, "cargo": {long: []string{"config", "manifest-path"}, banned: []string{"install", "login", "publish", "owner", "yank"}, exact: []string{}}, "rustc": {short: "Co", long: []string{"codegen", "extern", "sysroot"}},
	"gcc": compiler, "g++": compiler, "cc": compiler, "c++": compiler, "clang": compiler, "clang++": compiler, "ld": {single: []string{"-plugin", "--plugin"}},
	"apt": {short: "oc", long: []string{"option", "config-file"}}, "apt-get": {short: "oc", long: []string{"option", "config-file"}}, "apt-cache": {short: "oc", long: []string{"option", "config-file"}}, "dpkg": {long: []string{"pre-invoke", "post-invoke", "root", "admindir", "path-include", "status-logger"}},
	"yq": {short: "i", long: []string{"inplace", "split-exp", "split-exp-file"}}, "jq": {}, "prettier": {short: "w", long: []string{"write", "plugin", "config"}}, "gofmt": {short: "w"}, "goimports": {short: "w"}, "ctags": {short: "fo", long: []string{"options", "output"}}, "exiftool": {single: []string{"-config", "-if", "-w", "-o"}}, "pandoc": {short: "oFL", long: []string{"output", "filter", "lua-filter", "pdf-engine", "extract-media"}},
	"nmap": {single: []string{"-oN", "-oX", "-oG", "-oA", "-oS", "-iL"}, long: []string{"script", "datadir", "interactive"}}, "tcpdump": {short: "zwWF"}, "tshark": {short: "wXF"}, "nc": {short: "ec", long: []string{"exec", "sh-exec"}}, "ncat": {short: "eco", long: []string{"exec", "sh-exec", "lua-exec", "output"}}, "netcat": {short: "ec"}, "socat": {check: socket}, "openssl": {single: []string{"-out", "-engine", "-provider", "-provider-path", "-keyout", "-config", "-writerand"}, dashes: true},
	"dig": {short: "f"}, "ip": {short: "b", long: []string{"batch"}, words: []string{"exec"}, single: []string{"-batch"}}, "journalctl": {long: []string{"vacuum-size", "vacuum-time", "rotate", "flush", "cursor-file"}}, "systemctl": {long: []string{"host"}, banned: []string{"edit", "set-environment", "import-environment", "link", "enable", "mask"}}, "ps": {}, "top": {}, "crontab": {operands: -1, short: "er"}, "at": {short: "f"},
	"gh": {banned: []string{"alias", "extension", "ext", "config"}}, "docker": {short: "H", long: []string{"host", "context", "config"}}, "kubectl": {long: []string{"kubeconfig"}, exact: []string{}}, "terraform": {banned: []string{"console"}}, "pip": {long: []string{"python", "target", "prefix", "root", "log", "config-settings", "global-option", "install-option", "src"}, short: "t"}, "pip3": {long: []string{"python", "target", "prefix", "root", "log", "config-settings", "global-option", "src"}, short: "t"},
	"sqlite3": {check: sqlite, short: "", single: []string{"-init", "-cmd", "--init", "--cmd"}, dashes: true}, "pytest": {short: "cpo", long: []string{"rootdir", "confcutdir", "override-ini", "config-file", "basetemp", "junit-xml", "junitxml", "log-file", "pdbcls"}, valued: "kmnW"}, "tsc": {}, "eslint": {short: "co", long: []string{"config", "fix", "output-file", "plugin", "resolve-plugins-relative-to", "rulesdir", "format"}, exact: []string{"fix-dry-run"}},
	"fzf": {long: []string{"preview", "bind", "listen", "listen-unsafe", "with-shell", "become", "tmux"}}, "logger": {short: "f"}, "ffmpeg": {}, "convert": {}, "gs": {},
	"vim": {}, "vi": {}, "nvim": {}, "view": {}, "emacs": {}, "nano": {}, "gdb": {}, "dd": {check: nil}, "cp": {}, "mv": {}, "ln": {}, "install": {long: []string{"strip-program"}}, "chmod": {}, "chown": {}, "rm": {}, "touch": {}, "mkdir": {},
}

var compiler = guard{short: "B", single: []string{"-wrapper", "-fplugin", "-specs", "--specs", "-iplugindir", "-Xclang", "-load"}, valued: "oIDLlx", check: responseFile}

var awkGuard = guard{short: "fileEopdDLW", long: []string{"file", "include", "load", "exec", "pretty-print", "profile", "dump-variables", "debug", "gen-pot", "source"}, valued: "Fv", longs: []string{"field-separator", "assign"}, check: nil}

// plain are programs whose entry above only says that options matter to nobody: a word that the shell
// knows alone is fine with them.
func (g guard) empty() bool {
	return g.short == "" && g.output == "" && len(g.long)+len(g.single)+len(g.outs)+len(g.words)+len(g.subs)+len(g.banned) == 0 && g.operands == 0 && g.check == nil
}

func plus(v string) string {
	if strings.HasPrefix(v, "+") {
		return "it is given a command to run (" + v + ")"
	}
	return ""
}

// curlValue: @FILE is sent, and %output{FILE} is written.
func curlValue(v string) string {
	option, value, isOption := strings.Cut(v, "=")
	if !isOption || !strings.HasPrefix(option, "-") {
		option, value = "", v
	}
	if option == "" || option == "--url" {
		if strings.HasPrefix(strings.ToLower(value), "file:") {
			return "it reads a file (" + value + ")"
		}
	}
	if option == "-w" || option == "--write-out" {
		if strings.Contains(value, "%output{") || strings.HasPrefix(value, "@") {
			return "it writes a file (%output)"
		}
		return ""
	}
	if strings.HasPrefix(value, "@") || option == "--data-urlencode" && strings.Contains(value, "@") && !strings.Contains(strings.SplitN(value, "@", 2)[0], "=") {
		return "it sends a file"
	}
	return ""
}

func linker(v string) string {
	if strings.Contains(v, "-extld") || strings.Contains(v, "toolexec") {
		return "it names another linker"
	}
	if strings.HasPrefix(v, "-") {
		return ""
	}
	return ""
}

func makeValue(v string) string {
	for _, name := range []string{"SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MAKE", "PATH"} {
		if rest, ok := strings.CutPrefix(v, name); ok && strings.IndexAny(rest, "=:+?!") == 0 {
			return "it sets " + name
		}
	}
	return ""
}

func socket(v string) string {
	up := strings.ToUpper(v)
	for _, kind := range []string{"EXEC", "SYSTEM", "SHELL", "CREATE", "OPEN", "FILE", "GOPEN", "PIPE"} {
		if strings.HasPrefix(up, kind) {
			return "it runs or writes something (" + v + ")"
		}
	}
	return ""
}

var sqliteReads = []string{".tables", ".schema", ".mode", ".headers", ".header", ".indexes", ".indices", ".databases", ".dump", ".show", ".width", ".timer", ".help", ".exit", ".quit", ".stats", ".separator", ".nullvalue", ".fullschema", ".version", ".print"}

func sqlite(v string) string {
	low := strings.ToLower(v)
	for line := range strings.SplitSeq(low, "\n") {
		// A dot command may be abbreviated: only those that are known to write nothing are left alone.
		if name, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, ".") && !slices.Contains(sqliteReads, name) && !strings.Contains(name, "/") {
			return "it may run or write something (" + name + ")"
		}
	}
	for _, s := range []string{".shell", ".system", ".output", ".once", ".load", ".import", ".read", ".save", ".backup", ".open", ".excel", ".edit", "load_extension", "writefile", "edit(", "attach"} {
		if strings.Contains(low, s) {
			return "it may run or write something (" + s + ")"
		}
	}
	return ""
}

func responseFile(v string) string {
	if strings.HasPrefix(v, "@") {
		return "its options are in a file"
	}
	return ""
}
