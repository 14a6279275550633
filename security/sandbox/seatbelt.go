package sandbox

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Seatbelt returns the profile of the policy for macOS and the parameters for it, as
// `sandbox-exec -p PROFILE -D NAME=VALUE …` takes them. Paths are parameters, never part of the profile's text. dir and
// temp ("" = none) are real paths (/private/tmp, not /tmp).
//
// What a Box hides is not in it. No level uses it yet: it has not been tried on a Mac.
func Seatbelt(p Policy, dir, temp string) (profile string, params map[string]string) {
	s := &seatbelt{params: map[string]string{}}
	s.lines("(version 1)", "(deny default)", "(allow process-exec)")
	if p.Subprocess {
		s.lines("(allow process-fork)")
	}
	s.lines(
		"(allow signal (target same-sandbox))",
		"(allow process-info* (target same-sandbox))",
		"(allow sysctl-read)",
		"(allow pseudo-tty)",
		"(allow ipc-posix-sem)",
		`(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))`,
	)
	s.reads(p.Files)
	s.writes(p, dir, temp)
	s.network(p.Network)
	return s.text.String(), s.params
}

type seatbelt struct {
	text   strings.Builder
	params map[string]string
}

func (s *seatbelt) lines(lines ...string) {
	for _, l := range lines {
		s.text.WriteString(l + "\n")
	}
}

// param returns a new parameter with the value.
func (s *seatbelt) param(prefix, value string) string {
	name := prefix + strconv.Itoa(len(s.params))
	s.params[name] = value
	return `(param "` + name + `")`
}

// seatbeltSystem can always be read there.
var seatbeltSystem = []string{"/usr", "/bin", "/sbin", "/System", "/Library", "/private/etc", "/private/var/db/timezone", "/dev", "/opt"}

func (s *seatbelt) reads(f Files) {
	if readsAll(f) {
		s.lines("(allow file-read*)")
		return
	}
	s.lines("(allow file-read-metadata)", `(allow file-read* (literal "/"))`) // programs look at the way to their files
	for _, path := range seatbeltSystem {
		s.lines(`(allow file-read* (subpath "` + path + `"))`)
	}
	for _, path := range meetFiles(f, f).Read {
		s.lines("(allow file-read* (subpath " + s.param("READ", path) + "))")
	}
}

func (s *seatbelt) writes(p Policy, dir, temp string) {
	write := meetFiles(p.Files, p.Files).Write
	for _, path := range write {
		s.lines("(allow file-write* (subpath " + s.param("WRITE", path) + "))")
	}
	if p.Files.Temp && temp != "" {
		s.lines("(allow file-read* file-write* (subpath " + s.param("TEMP", temp) + "))")
	}
	bases := write
	if within(dir, "/") && !isRoot(dir) && len(write) > 0 && writesAll(p.Files) {
		bases = []string{dir}
	}
	for _, base := range bases {
		if p.Unprotected {
			break
		}
		for _, name := range Protected() { // the last match decides
			path := filepath.Join(base, filepath.FromSlash(name))
			s.lines("(deny file-write* (subpath " + s.param("KEEP", path) + "))")
			for at := filepath.Dir(path); at != base; at = filepath.Dir(at) {
				// nobody moves the directory away that it is in
				s.lines("(deny file-write-unlink (literal " + s.param("PIN", at) + "))")
			}
		}
	}
	s.lines(
		`(allow file-write-data (require-all (path "/dev/null") (vnode-type CHARACTER-DEVICE)))`,
		`(allow file-read* file-write* file-ioctl (literal "/dev/ptmx") (regex #"^/dev/ttys[0-9]+"))`,
	)
}

func (s *seatbelt) network(n Network) {
	switch n {
	case NetworkLocal:
		s.lines(
			`(allow network-bind network-inbound (local ip "localhost:*"))`,
			`(allow network-outbound (remote ip "localhost:*"))`,
		)
	case NetworkFull:
		s.lines(
			"(allow network-outbound (remote ip))", // Unix sockets are none of it
			"(allow network-bind network-inbound (local ip))",
			"(allow system-socket)",
			`(allow mach-lookup (global-name "com.apple.SystemConfiguration.configd") (global-name "com.apple.trustd.agent"))`,
		)
	}
}
