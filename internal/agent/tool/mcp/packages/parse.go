package packages

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
)

// The package managers that install.
const (
	NPM = "npm"
	UV  = "uv"
)

// Package is what an entry runs.
type Package struct {
	// Manager is NPM or UV.
	Manager string
	// Name is the name in the registry: "@scope/name", or of UV also "name[extra]".
	Name string
	// Version is the version, range or tag that the entry asks for; "" is the newest.
	Version string
	// Program is the program of the package; "" is the one that is named like the package, or its
	// only one.
	Program string
}

// String returns what identifies an installed package: the manager, the name and the wanted version.
func (p Package) String() string { return p.Manager + " " + p.Name + "@" + p.Version }

// runners are programs that download a package and run it, each with the words before its options.
var runners = map[string]string{
	"npx": NPM, "pnpx": NPM, "pnpm dlx": NPM, "yarn dlx": NPM, "bunx": NPM, "bun x": NPM,
	"uvx": UV, "uv tool run": UV, "pipx run": UV,
}

// naming are the options that are followed by the package. Only plain ones may stand beside them.
var (
	naming = map[string][]string{NPM: {"-p", "--package"}, UV: {"--from", "--spec"}}
	plain  = []string{"-y", "--yes", "-q", "--quiet", "--silent", "--bun"}
)

var (
	npmSpec = lazyregexp.New(`^((?:@[A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*)(?:@([\w^~*<>=][\w.^~*<>=+-]*))?$`)
	uvSpec  = lazyregexp.New(`^([A-Za-z0-9][\w.-]*(?:\[[\w.,-]+\])?)(?:@(v?\d[\w.+!-]*|latest)|([=<>~!][\w.*+!<>=~,-]*))?$`)
	program = lazyregexp.New(`^[A-Za-z0-9][\w.-]*$`)
)

// maxName is the longest argument that names a package, in bytes; npm allows names of 214.
const maxName = 300

// Parse returns the package that a command downloads and runs, and the arguments of its program. The
// Manager is "" if the command is no such program. An error says what of it is not understood: a
// wrong reading would install one package in the place of another.
func Parse(command string, args []string) (p Package, rest []string, err error) {
	if filepath.Base(command) != command && !filepath.IsAbs(command) {
		return p, nil, nil // a program of the project's
	}
	manager, n := "", 1
	for line := filepath.Base(command); manager == "" && n <= 3; n++ {
		if manager = runners[line]; manager != "" || n > len(args) {
			break
		}
		line += " " + args[n-1]
	}
	if manager == "" {
		return p, nil, nil
	}
	spec, rest, err := options(args[n-1:], naming[manager])
	if err == nil && len(rest) == 0 {
		err = errors.New("no package is named")
	}
	if err != nil {
		return p, nil, fmt.Errorf("%s: %w", filepath.Base(command), err)
	}
	if spec == "" {
		spec = rest[0]
	} else {
		p.Program = rest[0]
	}
	match := npmSpec().FindStringSubmatch(spec)
	if manager == UV {
		match = uvSpec().FindStringSubmatch(spec)
	}
	if match == nil || len(spec) > maxName || p.Program != "" && !program().MatchString(p.Program) {
		return Package{}, nil, fmt.Errorf("%q is not the name of a package of a registry, with or without @VERSION, and of its program", strings.TrimSpace(p.Program+" "+spec))
	}
	p.Manager, p.Name, p.Version = manager, match[1], cmp.Or(match[2:]...)
	if p.Version == "latest" {
		p.Version = ""
	}
	return p, rest[1:], nil
}

// options reads the options before the first other argument. spec is the package if one of naming has
// it; rest are the other arguments.
func options(args, naming []string) (spec string, rest []string, err error) {
	for ; len(args) > 0 && strings.HasPrefix(args[0], "-"); args = args[1:] {
		name, value, given := strings.Cut(args[0], "=")
		switch {
		case args[0] == "--":
			return spec, args[1:], nil
		case slices.Contains(plain, args[0]):
		case slices.Contains(naming, name) && spec == "" && given && value != "":
			spec = value
		case slices.Contains(naming, args[0]) && spec == "" && len(args) > 1 && args[1] != "":
			spec, args = args[1], args[1:]
		default:
			return "", nil, fmt.Errorf("the option %s is not understood", args[0])
		}
	}
	return spec, args, nil
}
