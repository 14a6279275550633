package permission

import (
	"strings"

	"symbio/security/permission/file"
	"symbio/security/permission/shell"
)

// knownParts cuts a pattern at what only the shell knows, and at the signs before a file's name,
// so that the names between can be looked up in a table.
var knownParts = strings.NewReplacer(string(shell.Any), "/", string(shell.AnyName), "/", string(shell.AnyRune), "/", string(shell.Below), "/", "=", "/", ":", "/")

// protected returns the protected name that a call would write, or the place with keys or
// passwords that it would use, and a sentence on the risk; "" if none, and for tools that use no
// path. Reading a protected name is harmless, reading a key is not.
func (f *facts) protected() (name, risk string) {
	if f.subject.matter != matterPath {
		return "", ""
	}
	reads := f.subject.tree || f.call.Tool == "Read"
	for _, at := range f.locations() {
		if name := at.Protected(); name != "" && !reads {
			return name, "Other programs run " + name + " or obey it"
		}
		if name := f.links.Secret(at); name != "" {
			return name, "Programs keep keys or passwords in " + name
		}
	}
	return "", ""
}

// spellsPath reports whether the rule's path contains a protected name, as whole parts and in any
// case. Only such a rule allows to use it.
func (r *Rule) spellsPath(name string) bool {
	return r.form == formPath && strings.Contains("/"+strings.ToLower(r.spec)+"/", "/"+strings.ToLower(name)+"/")
}

// writesProtected returns a protected name that command i writes and that the words which the
// rule spells do not name; "" if none. spelled is how many words the rule spells: one that spells
// the whole command has named the file. Moving or removing the directory around a protected name
// counts.
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
			if name := file.ProtectedIn("/" + knownParts.Replace(u.Word.Pattern) + "/"); name != "" {
				return name
			}
			// A program that computes names can make any of them, .git/hooks too.
			if f.shell.program.Computes && strings.ContainsRune(u.Word.Pattern, shell.Any) {
				return "a file that only the shell knows"
			}
		}
		if u.place.Lexical == "" {
			continue
		}
		if name := u.place.Protected(); name != "" {
			return name
		}
	}
	return ""
}
