package shell

import (
	"regexp"
	"slices"
	"strings"
)

// checks are the functions that a guard names. Each says why a value is not covered, "" if it is.
var checks = map[string]func(value string) string{
	"bang": bang, "curlValue": curlValue, "linker": linker, "makeValue": makeValue, "plus": plus,
	"responseFile": responseFile, "socket": socket, "sqlite": sqlite, "transport": transport,
}

// transport: x::y runs git-remote-x.
func transport(v string) string {
	if name, _, ok := strings.Cut(v, "::"); ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._") == "" {
		return "its remote runs a program (" + v + ")"
	}
	return ""
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

// dcRuns: dc gives what follows a ! to a shell, but for comparisons.
var dcRuns = regexp.MustCompile(`!($|[^<>=])`)

func bang(v string) string {
	if dcRuns.MatchString(v) {
		return "it may run something (" + v + ")"
	}
	return ""
}

// socket: of the addresses of socat those of the network and its own input and output are covered.
func socket(v string) string {
	kind := strings.ToUpper(v[:strings.IndexAny(v+":", ":,")])
	if kind != "-" && !set("TCP TCP4 TCP6 UDP UDP4 UDP6 SSL OPENSSL STDIO STDIN STDOUT")[kind] || strings.Contains(v, "!!") {
		return "it runs or writes something (" + v + ")"
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
