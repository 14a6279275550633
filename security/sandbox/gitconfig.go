package sandbox

import (
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
)

// gitEntry is one setting of a git configuration. section is in lower case but for its middle part,
// name is in lower case. kind is section and name with * in place of the middle part, as in
// remote.*.url. An entry that was not understood has its line in value, and no kind.
type gitEntry struct{ section, name, value, kind string }

// String returns the entry as people see it in reports.
func (e gitEntry) String() string {
	if e.kind == "" {
		return e.value
	}
	return e.section + "." + e.name + " = " + e.value
}

var (
	// These are the lines that git itself writes. Whatever else its grammar allows (two settings on
	// one line, continued lines, [section.name]) is not understood, and so not kept. Nor is a NUL: git
	// takes what is before it in a section's name for the whole name of a setting.
	gitHeader = lazyregexp.New(`^\s*\[([A-Za-z0-9-]+)(?:\s+("(?:[^"\\\x00]|\\[^\x00])*"))?\]\s*$`)
	gitKey    = lazyregexp.New(`^\s*([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*((?:[^\\\x00-\x08\x0a-\x1f]|\\[\\"ntb])*))?$`)
)

// gitHelper matches a remote for which git starts a program of that name, such as ext::COMMAND.
var gitHelper = lazyregexp.New(`^[A-Za-z0-9+._-]*::`)

// readGit returns the entries of a configuration. Lines that it does not understand become
// entries without a kind, which are never harmless.
func readGit(text string) (all []gitEntry) {
	section, kind := "", ""
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' || trimmed[0] == ';' {
			continue
		}
		if m := gitHeader().FindStringSubmatch(line); m != nil {
			section, kind = strings.ToLower(m[1]), strings.ToLower(m[1])
			if m[2] != "" {
				section, kind = section+" "+m[2], kind+".*"
			}
			continue
		}
		m := gitKey().FindStringSubmatch(line)
		if m == nil || section == "" {
			all = append(all, gitEntry{value: trimmed})
			continue
		}
		name := strings.ToLower(m[1])
		value := m[2]
		if !strings.Contains(line, "=") {
			value = "true"
		}
		all = append(all, gitEntry{section, name, value, kind + "." + name})
	}
	return all
}

// reviewGit divides what a command left in a git configuration. clean is the text of the entries
// that were there before or by which git executes nothing, written anew; dropped names the others.
// It keeps no comments. inside reports whether a worktree lies in the workspace.
func reviewGit(now, before string, inside func(worktree string) bool) (clean string, dropped []string) {
	old := map[gitEntry]bool{}
	for _, e := range readGit(before) {
		old[e] = e.kind != ""
	}
	var b strings.Builder
	section := ""
	for _, e := range readGit(now) {
		if !old[e] && !e.harmless(inside) {
			dropped = append(dropped, e.String())
			continue
		}
		if e.section != section {
			section = e.section
			b.WriteString("[" + section + "]\n")
		}
		b.WriteString("\t" + e.name + " = " + e.value + "\n")
	}
	return b.String(), dropped
}

// harmless reports whether git executes nothing, reads no other configuration and writes
// nowhere else because of the entry. It is a list of allowed settings: a setting of a future
// git is dropped.
func (e gitEntry) harmless(inside func(string) bool) bool {
	family, _, _ := strings.Cut(e.kind, ".")
	switch value := strings.ReplaceAll(e.value, `"`, ""); {
	case e.kind == "core.worktree": // of a submodule
		return inside(e.value)
	case strings.HasPrefix(value, "!"), gitHelper().MatchString(value):
		return false
	}
	return slices.Contains(gitFamilies, family) && strings.Count(e.kind, ".") == 1 || slices.Contains(gitKinds, e.kind)
}

// gitFamilies are the sections without a setting that makes git execute something. Sections with a
// middle part are not meant.
var gitFamilies = []string{"advice", "author", "color", "column", "committer", "extensions", "feature", "fetch", "index", "push", "rebase", "rerere", "status"}

// gitKinds are single settings that git, its hosts' programs and people write into the
// configuration of a repository, and by which git executes nothing.
var gitKinds = strings.Fields(`
	core.repositoryformatversion core.filemode core.bare core.logallrefupdates core.ignorecase core.precomposeunicode core.symlinks
	core.autocrlf core.eol core.safecrlf core.quotepath core.abbrev core.sparsecheckout core.sparsecheckoutcone core.untrackedcache
	core.splitindex core.preloadindex core.whitespace core.commentchar core.compression core.longpaths core.bigfilethreshold
	user.name user.email init.defaultbranch pull.rebase pull.ff merge.ff merge.conflictstyle merge.renames
	diff.algorithm diff.renames diff.colormoved diff.mnemonicprefix diff.noprefix diff.context log.date log.decorate log.abbrevcommit
	commit.gpgsign commit.verbose commit.status tag.gpgsign tag.sort branch.sort branch.autosetupmerge branch.autosetuprebase
	branch.*.remote branch.*.merge branch.*.rebase branch.*.pushremote branch.*.description branch.*.vscode-merge-base branch.*.gh-merge-base
	remote.*.url remote.*.pushurl remote.*.fetch remote.*.push remote.*.tagopt remote.*.prune remote.*.mirror remote.*.promisor
	remote.*.partialclonefilter remote.*.skipdefaultupdate remote.*.gh-resolved remote.pushdefault
	submodule.*.url submodule.*.active submodule.*.update submodule.*.branch submodule.*.ignore submodule.*.shallow
	submodule.*.fetchrecursesubmodules submodule.recurse submodule.active submodule.alternatelocation submodule.alternateerrorstrategy
	gc.auto maintenance.auto maintenance.strategy lfs.repositoryformatversion
`)
