package permission

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"symbio/security/permission/shell"
	"symbio/security/protected"
)

// protectedNames are what other programs of the user execute or take orders from (security.md 3.5): a rule allows writing
// them only when it spells them. They count at any depth. HEAD makes a git directory of what lies beside it.
var protectedNames = func() []string {
	names := append(protected.Names(), "HEAD", ".local/state/symbio")
	for i, name := range names {
		names[i] = strings.ToLower(name)
	}
	return names
}()

// protected finds the protected name that a path leads to or through.
func (at place) protected() string {
	for _, p := range [2]string{at.lexical, at.real} {
		whole := strings.ToLower(p) + "/" // a file system may take a name in any case
		for _, name := range protectedNames {
			if strings.Contains(whole, "/"+name+"/") {
				return name
			}
		}
		dir, base := path.Split(p)
		if under := strings.TrimSuffix(dir, "/hooks/"); under != dir {
			dir, base = under, "hooks"
		}
		switch base {
		case ".git":
			return base
		case "hooks", "config", "config.worktree":
			if _, err := os.Lstat(filepath.Join(filepath.FromSlash(dir), "HEAD")); err == nil {
				return base
			}
		}
	}
	return ""
}

// protectedIn finds a protected name in what is known of a path.
func protectedIn(pattern string) string {
	whole := "/" + strings.ToLower(knownParts.Replace(pattern)) + "/"
	for _, name := range protectedNames {
		if strings.Contains(whole, "/"+name+"/") {
			return name
		}
	}
	return ""
}

// knownParts cuts a pattern at what only the shell knows, and behind the signs before a file's name.
var knownParts = strings.NewReplacer(string(shell.Any), "/", string(shell.AnyName), "/", string(shell.AnyRune), "/", string(shell.Below), "/", "=", "/", ":", "/")

// protected finds the protected name that a call writes, or the place with keys or passwords that it uses. risk says
// what about it a person has to think of.
func (f *facts) protected() (name, risk string) {
	if f.subject.matter != matterPath {
		return "", ""
	}
	reads := f.subject.tree || f.call.Tool == "Read"
	for _, at := range f.locations() {
		if name := at.protected(); name != "" && !reads {
			return name, "Other programs run " + name + " or obey it"
		}
		if name := f.secret(at); name != "" {
			return name, "Programs keep keys or passwords in " + name
		}
	}
	return "", ""
}

// spellsPath reports whether a rule names what is protected.
func (r *Rule) spellsPath(name string) bool {
	return r.form == formPath && strings.Contains("/"+strings.ToLower(r.spec)+"/", "/"+strings.ToLower(name)+"/")
}

// writesProtected finds a protected name that a command writes and that the first words of it do not
// spell; moving or removing the directory around one counts.
func (f *facts) writesProtected(i, spelled int) string {
	c := &f.shell.program.Commands[i]
	if name := c.Name(); !shell.Writes(name) || spelled >= len(c.Words) {
		return ""
	}
	for _, u := range f.usesOf(i) {
		if u.Write != shell.Yes {
			continue
		}
		if u.Word.Dynamic {
			if name := protectedIn(u.Word.Pattern); name != "" {
				return name
			}
			if f.shell.program.Computes && strings.ContainsRune(u.Word.Pattern, shell.Any) {
				return "a file that only the shell knows"
			}
		}
		if u.place.lexical == "" {
			continue
		}
		if name := u.place.protected(); name != "" {
			return name
		}
	}
	return ""
}
