package permission

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"

	"symbio/internal/security/permission/file"
	"symbio/internal/security/permission/shell"
)

// Key returns a text that identifies what a call does: two calls have the same Key only if
// they have the same tool, decoded arguments and directory. For Bash it covers the whole
// program as it is printed to be run, and the content of the scripts that it names, so that an
// approval ends when a script changes. "" when the call cannot be written down exactly; such a
// call has to be approved each time.
func (c Call) Key() string { return look(c).key() }

// key is Call.Key, computed once for a call. It leaves out the description and the timeout of a
// command, which change nothing of the program (decision 0029).
func (f *facts) key() string {
	if f.named != nil {
		return *f.named
	}
	f.named = new("")
	c := f.call
	x := f.ran()
	if x != nil && f.subject.matter == matterGit {
		c.Args = map[string]any{"argv": x.argv, "box": string(f.askedBox())}
	} else if x != nil {
		if c.Args = map[string]any{"script": x.program.Canonical, "holds": x.scripts(), "box": string(f.askedBox())}; x.program.Canonical == "" {
			return ""
		}
	}
	if k, ok := key(c); ok && (x == nil || !x.unclear) {
		sum := sha256.Sum256([]byte(k))
		*f.named = c.Tool + " " + hex.EncodeToString(sum[:])
	}
	return *f.named
}

// maxScript is how many bytes of a script Key reads. A larger script is identified by its
// beginning: 4 MiB is more than people write, and is hashed in some 10 ms.
const maxScript = 4 << 20

// scripts returns digests of the files that the program's commands run, by real path: scripts
// that stand first in a command, and files that an interpreter is given. Files that the program
// writes itself are left out, since their content follows from its text. A file that cannot be
// read is left out, too.
func (x *execution) scripts() map[string]string {
	all := map[string]string{}
	add := func(at file.Location) {
		if info, err := os.Stat(at.Real); err != nil || !info.Mode().IsRegular() || slices.ContainsFunc(x.files,
			func(o redirection) bool { return o.call.Tool == "Write" && o.locations()[0].Real == at.Real }) {
			return
		}
		if script, err := os.Open(at.Real); err == nil {
			defer script.Close()
			sum := sha256.New()
			if _, err = io.Copy(sum, io.LimitReader(script, maxScript)); err == nil {
				all[at.Real] = hex.EncodeToString(sum.Sum(nil))
			}
		}
	}
	for _, c := range x.program.Commands {
		for _, dir := range c.Dirs.Paths {
			if strings.Contains(c.Words[0].Text, "/") {
				add(x.facts.locator.physical(dir, c.Words[0].Text, c.Words[0].Tilde))
			}
		}
		if c.Unread || shell.Interpreter([]string{c.Name()}) {
			for _, w := range c.Words[1:] {
				for _, at := range x.facts.locator.mayName(w, c.Dirs) {
					add(at)
				}
			}
		}
	}
	return all
}

// byCall returns the verdict of a grant for exactly this call, and whether there is one. The
// tool's name is compared first, since a Key costs parsing and hashing.
func (f *facts) byCall(granted []Grant) (v Verdict, found bool) {
	for _, g := range granted {
		if tool, _, _ := strings.Cut(g.Call, " "); g.Call != "" && tool == f.call.Tool && g.Call == f.key() {
			return Verdict{Action: Allow, Stage: StageAllow, Source: g.Source, Why: "Exactly this call has been allowed from now on. It was granted by " + g.Source + "."}, true
		}
	}
	return v, false
}

// Lasting returns the grant that allows this call, and nothing else, from now on; nil when
// parts of a command are known to the shell alone, or the call cannot be written down. It
// never grants parts of a plan: a command does something else when its input, its redirections
// or the commands before it change.
func (c Call) Lasting(p *Plan) []Grant {
	if k := c.Key(); k != "" && p.Always() {
		return []Grant{{Call: k}}
	}
	return nil
}

// Digest identifies the policy: another has the same Digest only if it has the same rules and
// default. The order of the rules does not matter.
func (p Policy) Digest() string {
	lists := [][]string{sortedTexts(p.FinalDeny), sortedTexts(p.Deny), sortedTexts(p.Override), sortedTexts(p.Allow)}
	text, _ := json.Marshal(append(lists, []string{p.Default.String()})) // texts cannot fail
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
