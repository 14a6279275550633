package shell

import (
	"regexp"
	"slices"
	"strings"
)

// checks are the functions that a guard names in programs.yaml (guard.Check). Each gets an
// operand, or "OPTION=VALUE", and returns why the value makes the program run or write something;
// "" if it does not. readPrograms panics on a name that is not here.
var checks = map[string]func(value string) string{
	"bang": bang, "curlValue": curlValue, "linker": linker, "makeValue": makeValue, "plus": plus,
	"responseFile": responseFile, "socket": socket, "sqlite": sqlite, "transport": transport,
}

// transport refuses git's remote URLs of the form x::y, for which git runs the program
// git-remote-x; ext::sh runs any command.
func transport(v string) string {
	if name, _, ok := strings.Cut(v, "::"); ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-._") == "" {
		return "its remote runs a program (" + v + ")"
	}
	return ""
}

// plus refuses operands that begin with +, which less and more take as commands.
func plus(v string) string {
	if strings.HasPrefix(v, "+") {
		return "it is given a command to run (" + v + ")"
	}
	return ""
}

// curlValue refuses values by which curl reads or writes files: file: URLs, @FILE in data and
// headers, which is sent, and %output{FILE} in the format of -w, which is written.
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
	// A format that begins with @ is read from a file, whose text may have %output.
	if option == "-w" || option == "--write-out" {
		if strings.Contains(value, "%output{") || strings.HasPrefix(value, "@") {
			return "it writes a file (%output)"
		}
		return ""
	}
	// --data-urlencode NAME@FILE also sends a file; behind a = the @ is data.
	if strings.HasPrefix(value, "@") || option == "--data-urlencode" && strings.Contains(value, "@") && !strings.Contains(strings.SplitN(value, "@", 2)[0], "=") {
		return "it sends a file"
	}
	return ""
}

// linker refuses values of go's -ldflags and -gcflags that name a program to run.
func linker(v string) string {
	if strings.Contains(v, "-extld") || strings.Contains(v, "toolexec") {
		return "it names another linker"
	}
	return ""
}

// makeValue refuses operands of make that assign a variable which names a program or more
// options. = may be written as :=, ::=, +=, ?= and !=.
func makeValue(v string) string {
	for _, name := range []string{"SHELL", ".SHELLFLAGS", "MAKEFLAGS", "MAKEFILES", "GNUMAKEFLAGS", "MAKE", "PATH"} {
		if rest, ok := strings.CutPrefix(v, name); ok && strings.IndexAny(rest, "=:+?!") == 0 {
			return "it sets " + name
		}
	}
	return ""
}

// dcRuns matches a ! of dc, which gives the rest of the line to a shell. Before <, = and > it is
// a comparison.
var dcRuns = regexp.MustCompile(`!($|[^<>=])`)

// bang refuses programs for dc that may run a command.
func bang(v string) string {
	if dcRuns.MatchString(v) {
		return "it may run something (" + v + ")"
	}
	return ""
}

// socket accepts addresses of socat for the network and for its own input and output. All others
// open files or run programs (EXEC:, SYSTEM:, OPEN:). Two addresses joined by !! are not taken
// apart.
func socket(v string) string {
	kind := strings.ToUpper(v[:strings.IndexAny(v+":", ":,")])
	if kind != "-" && !set("TCP TCP4 TCP6 UDP UDP4 UDP6 SSL OPENSSL STDIO STDIN STDOUT")[kind] || strings.Contains(v, "!!") {
		return "it runs or writes something (" + v + ")"
	}
	return ""
}

// sqliteReads are dot commands of the sqlite3 shell that neither write a file nor run a program.
// The list is positive because names may be abbreviated (.sh for .shell).
var sqliteReads = []string{".tables", ".schema", ".mode", ".headers", ".header", ".indexes", ".indices", ".databases", ".dump", ".show", ".width", ".timer", ".help", ".exit", ".quit", ".stats", ".separator", ".nullvalue", ".fullschema", ".version", ".print"}

// sqlite refuses SQL and dot commands that may run or write something. It also looks for
// dangerous names anywhere in the text, which may hit inside a string and cost a question.
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

// responseFile refuses operands @FILE, by which compilers read further options from a file.
func responseFile(v string) string {
	if strings.HasPrefix(v, "@") {
		return "its options are in a file"
	}
	return ""
}
