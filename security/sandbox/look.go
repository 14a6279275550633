package sandbox

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Looks returns nil if this machine can hold a command that only looks (Look), else an error of one line that says why not, and
// what would mend it.
func (b *Box) Looks() error {
	mend := b.here.mend
	switch level := b.here.level; {
	case level >= Bwrap:
		return nil
	case level == Off:
		mend = "let the configuration use a level of the sandbox"
	case level == Seatbelt:
		return errors.New("their box needs the namespaces of Linux")
	}
	return fmt.Errorf("there is no box for them at the level %v; %s", b.here.level, mend)
}

// Works reports whether this machine holds commands with the policy to some directories, to files there that no other
// program executes, and to a network of their own.
func (b *Box) Works(p Policy) bool {
	return b.here.level > Off && b.Check(p) == nil && p.Network != NetworkFull && !p.Unprotected && !writesAll(p.Files)
}

// caches are the directories in which tools keep what they have downloaded and built: the variable that names one, its
// place without it below the home, and what is meant below that. The first of a list counts.
var caches = []struct{ variable, home, below string }{
	{"GOCACHE", ".cache/go-build", ""}, {"GOMODCACHE", "", ""}, {"GOPATH", "go", "pkg/mod"},
	{"npm_config_cache", ".npm", ""}, {"PIP_CACHE_DIR", ".cache/pip", ""},
	{"CARGO_HOME", ".cargo", "registry"}, {"CARGO_HOME", ".cargo", "git"},
}

// toolchains are the directories below the home in which installers put programs with what these need. One is seen if
// the PATH leads into it; what is after the colon is seen with it.
var toolchains = strings.Fields(`
	.pyenv .nvm .fnm .rustup .cargo/bin:.rustup .local/bin:.local/lib,.local/pipx,.local/share/pipx,.local/share/uv .local/share/mise
	.local/share/fnm .local/share/pnpm .asdf .sdkman .bun .deno .volta .rbenv .rvm .ghcup .dotnet .nix-profile miniconda3 anaconda3 go/bin sdk
`)

// toolVariables name directories of toolchains.
var toolVariables = []string{"GOROOT", "RUSTUP_HOME", "NVM_DIR", "PYENV_ROOT", "JAVA_HOME"}

// BuildEnv returns the names of the variables by which tools find caches and toolchains, and of those that make a build
// the one that is in the cache.
func BuildEnv() []string {
	names := append(slices.Clone(toolVariables), "GOFLAGS", "GOTOOLCHAIN", "CGO_ENABLED")
	for _, c := range caches {
		names = append(names, c.variable)
	}
	return join(names, nil)
}

// cachePaths returns the places of the caches, whether they are there or not.
func (b *Box) cachePaths(home string) (out []string) {
	for _, c := range caches {
		first, _, _ := strings.Cut(lookup(b.cfg.Env, c.variable), string(filepath.ListSeparator))
		at := b.inHome(first, home)
		if at == "" && c.home != "" && home != "" {
			at = filepath.Join(home, c.home)
		}
		if at != "" {
			out = append(out, filepath.Join(at, c.below))
		}
	}
	return out
}

// toolPaths returns the directories of the PATH outside of the system's, and the toolchains that they belong to,
// whether they are there or not. None is around the home.
func (b *Box) toolPaths(home string) []string {
	var out []string
	for _, name := range toolVariables {
		out = append(out, b.inHome(lookup(b.cfg.Env, name), home))
	}
	for _, dir := range filepath.SplitList(lookup(b.cfg.Env, "PATH")) {
		dir = b.inHome(dir, home)
		out = append(out, dir)
		for _, t := range toolchains {
			root, with, _ := strings.Cut(t, ":")
			if root = filepath.Join(home, root); home == "" || dir == "" || !within(dir, root) {
				continue
			}
			out = append(out, root)
			for w := range strings.FieldsFuncSeq(with, func(r rune) bool { return r == ',' }) {
				out = append(out, filepath.Join(home, w))
			}
		}
	}
	return slices.DeleteFunc(out, func(path string) bool { return path == "" || path == "/" || home != "" && within(home, path) })
}

// inHome returns a path in its shortest form, with the home's links resolved and no others; "" if it is not absolute.
func (b *Box) inHome(path, home string) string {
	path = clean(path)
	if rest, found := strings.CutPrefix(path, clean(b.cfg.Home)+"/"); found && home != "" {
		return filepath.Join(home, rest)
	}
	return path
}
