package sandbox

import (
	_ "embed"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"symbio/internal/security/protected"
)

const (
	// protectedLetters are the letters of protected names. None of them ends a rule.
	protectedLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"
	// othersTemp are the temporary files of all programs, which the private directory of a command takes the place of.
	othersTemp = `(deny file-read* (subpath "/private/tmp") (subpath "/private/var/tmp") (subpath "/private/var/folders"))` + "\n"
	// wholeNetwork has no Unix socket but the resolver's.
	wholeNetwork = `(allow network-outbound (remote ip) (literal "/private/var/run/mDNSResponder"))
(allow network-bind network-inbound (local ip))
(allow system-socket)
(allow mach-lookup (global-name "com.apple.trustd.agent") (global-name "com.apple.SystemConfiguration.configd"))
`
)

//go:embed seatbelt.sb
var seatbeltBase string

// seatbelt returns the command line that runs a program, an absolute path, with what the policy allows. temp is the
// directory for temporary files, "" if there is none. It returns an error for files that Seatbelt cannot be told of.
func (b *Box) seatbelt(p Policy, program string, args []string, dir, temp string) ([]string, error) {
	hidden, err := b.hidden(p.Files)
	if err == nil {
		err = openly(hidden, dir, program)
	}
	write := p.Files.writable(p.Files.Write)
	if temp != "" {
		write = append(write, temp)
	}
	rules := ""
	if err == nil && !p.Unprotected {
		rules, err = protectedRules(slices.Concat(protected.Names(), b.cfg.Protect), write)
	}
	if err != nil {
		return nil, err
	}
	text, params := seatbeltBase, []string{}
	// rule adds a rule about each path. Paths stand in parameters and never in the text, so that no path can become a rule.
	rule := func(rule, filter string, paths ...string) {
		for _, path := range paths {
			name := fmt.Sprintf("P%d", len(params)/2)
			params = append(params, "-D", name+"="+path)
			text += fmt.Sprintf("(%s (%s (param %q)))\n", rule, filter, name)
		}
	}
	if readsAll(p.Files) {
		rule("allow file-read*", "subpath", "/")
		text += othersTemp
	}
	rule("allow file-read*", "subpath", slices.DeleteFunc(slices.Clone(p.Files.Read), isRoot)...)
	rule("allow file-read* file-write*", "subpath", write...)
	text += rules
	rule("deny file-write*", "subpath", p.Files.Denied.ReadOnly...)
	rule("deny file-read* file-write*", "subpath", hidden...)
	// Rules are about paths: whoever moves a directory away from above a file has the file under another path.
	rule("deny file-write-unlink", "literal", ancestors(slices.Concat(hidden, p.Files.Denied.ReadOnly, p.Files.Denied.Fixed))...)
	if p.Network == NetworkFull {
		text += wholeNetwork
		rule("allow network-outbound", "literal", p.Files.Sockets...)
	}
	if p.Subprocess {
		text += "(allow process-exec process-fork)\n"
	} else {
		rule("allow process-exec", "literal", program)
	}
	return slices.Concat([]string{"/usr/bin/sandbox-exec", "-p", text}, params, []string{program}, args), nil
}

// ancestors returns the directories above the paths, each once.
func ancestors(paths []string) (all []string) {
	for _, path := range paths {
		for at := filepath.Dir(clean(path)); at != filepath.Dir(at); at = filepath.Dir(at) {
			all = append(all, at)
		}
	}
	return join(all, nil)
}

// protectedRules returns the rules that keep a command from files of the names, at any depth and in any case, since the
// file systems of macOS ignore case; and from moving another directory into the place of the one above such a file. It
// returns an error for a name of other characters than letters, digits and . _ - /, which could end a rule, and for a
// directory to write that lies below one of the names.
func protectedRules(names, write []string) (rules string, err error) {
	var all []string
	for _, name := range names {
		if strings.Trim(name, protectedLetters) != "" {
			return "", fmt.Errorf("the name %q cannot be protected on this system: write letters, digits, and . _ - / alone", name)
		}
		all = append(all, name+"(/|$)")
		for up := path.Dir(name); up != "." && up != "/"; up = path.Dir(up) {
			all = append(all, up+"$")
		}
	}
	for _, one := range join(all, nil) {
		name := strings.TrimRight(one, "(/|$)")
		pattern := "/"
		for _, c := range name {
			pattern += map[bool]string{true: fmt.Sprintf("[%c%c]", unicode.ToLower(c), unicode.ToUpper(c)), false: regexp.QuoteMeta(string(c))}[unicode.IsLetter(c)]
		}
		pattern += one[len(name):]
		if i := slices.IndexFunc(write, regexp.MustCompile(pattern).MatchString); i >= 0 {
			return "", fmt.Errorf("%w: it is to write in %s, and a part of that path is protected", ErrNotStarted, write[i])
		}
		rules += "(deny file-write* (regex #\"" + pattern + "\"))\n"
	}
	return rules, nil
}
