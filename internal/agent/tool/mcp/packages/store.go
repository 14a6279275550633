package packages

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/private"
	"symbio/internal/security/visible"
	"symbio/security/sandbox"
)

// Store has the installed packages of a user. It may be used by many goroutines and processes.
type Store struct {
	// Dir is its directory, free of links. Commands must not see it, except the servers from it.
	Dir string
}

// Record says which package a person let in, and where it is.
type Record struct {
	// Package is Package.String of the entry's.
	Package string `json:"package"`
	// Version and Integrity are of the package itself.
	Version   string `json:"version"`
	Integrity string `json:"integrity"`
	// SHA256 is the hash of the whole lock.
	SHA256 string `json:"sha256"`
	// Dir is the directory below the Store's. Previous is the one before the last update,
	// from which a server may still be running.
	Dir      string `json:"dir"`
	Previous string `json:"previous,omitempty"`
	// Program is the program, if the entry names none.
	Program string `json:"program"`
}

// Records is the directory of the records, whose modification time changes with them.
func (s Store) Records() string { return filepath.Join(s.Dir, "records") }

// records returns the records of a Store. It is no method, since each package that uses a Store would compile them.
func records(s Store) private.Book[Record] {
	return private.Book[Record]{Dir: s.Records(), Key: func(r Record) string { return r.Package }}
}

// Argv returns the program and the arguments that an entry runs from the Store; nil if its command
// downloads no package, or the package is not installed.
func (s Store) Argv(command string, args []string) []string {
	p, rest, err := Parse(command, args)
	if err != nil || p.Manager == "" {
		return nil
	}
	_, program := s.installed(p)
	if program == "" {
		return nil
	}
	return append([]string{program}, rest...)
}

// installed returns the record of a package and the path of its program; "" if it is not there, or not any more.
func (s Store) installed(p Package) (Record, string) {
	i, err := records(s).Find(p.String())
	program := filepath.Join(s.Dir, i.Dir, managers()[p.Manager].bin, cmp.Or(p.Program, i.Program))
	if _, bad := os.Stat(program); err != nil || bad != nil {
		return Record{}, ""
	}
	return i, program
}

// Admit lets a server from the Store read what is installed, and no more than that.
func (s Store) Admit(p sandbox.Policy) sandbox.Policy {
	p.Files.Show = append(slices.Clip(p.Files.Show), s.Dir)
	p.Files.Read = append(slices.Clip(p.Files.Read), s.Dir)
	p.Files.Denied.ReadOnly = append(slices.Clip(p.Files.Denied.ReadOnly), s.Dir)
	return p
}

// Installer runs the package managers.
type Installer struct {
	Store Store
	Box   *sandbox.Box
	// Home is the user's home directory, in which the managers have their configuration.
	Home string
}

// Plan is what a package manager would install. Call Discard in any case.
type Plan struct {
	// After is what there will be, Before what there is, with an empty Version if nothing is.
	After, Before Record
	// Count is the number of all packages. Changes is a line for each one that is another than before.
	Count   int
	Changes []string

	installer Installer
	pkg       Package
	kept      bool
}

// Resolve asks the registry what there is. It runs nothing of a package and installs nothing.
func (in Installer) Resolve(ctx context.Context, p Package) (_ *Plan, err error) {
	m := managers()[p.Manager]
	if _, err := exec.LookPath(m.programs[0]); err != nil {
		return nil, fmt.Errorf("%s, which installs %s, is not on this machine: install it, or write the program of an installed package as the command of the entry", m.programs[0], p.Name)
	}
	if err := os.MkdirAll(in.Store.Dir, 0o700); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(in.Store.Dir, p.Manager+"-")
	if err != nil {
		return nil, err
	}
	plan := &Plan{After: Record{Package: p.String(), Dir: filepath.Base(dir)}, installer: in, pkg: p}
	defer func() {
		if err != nil {
			plan.Discard()
		}
	}()
	if err := os.WriteFile(filepath.Join(dir, m.wants), m.want(p), 0o600); err != nil {
		return nil, err
	}
	if err := in.run(ctx, m, dir, m.resolve); err != nil {
		return nil, err
	}
	text, all, err := m.readLock(dir)
	if err != nil {
		return nil, err
	}
	top, ok := find(all, p)
	if !ok {
		return nil, fmt.Errorf("the lock that %s wrote does not have %s", p.Manager, p.Name)
	}
	sum := sha256.Sum256(text)
	plan.After.Version, plan.After.Integrity, plan.After.SHA256, plan.Count = top.Version, top.Integrity, hex.EncodeToString(sum[:]), len(all)
	var before map[string]lockEntry
	if i, program := in.Store.installed(p); program != "" {
		plan.Before, plan.After.Previous = i, i.Dir
		_, before, _ = m.readLock(filepath.Join(in.Store.Dir, i.Dir)) // without it, all is new
	}
	plan.Changes = changes(before, all)
	return plan, nil
}

// Install installs what the plan says. It returns an error if the package has no such program.
func (pl *Plan) Install(ctx context.Context) error {
	in, m := pl.installer, managers()[pl.pkg.Manager]
	dir := filepath.Join(in.Store.Dir, pl.After.Dir)
	if err := pl.unchanged(m, dir); err != nil {
		return err
	}
	if err := in.run(ctx, m, dir, m.install); err != nil {
		return err
	}
	if err := pl.unchanged(m, dir); err != nil {
		return err
	}
	pl.After.Program = m.program(dir, pl.pkg)
	name := cmp.Or(pl.pkg.Program, pl.After.Program)
	if _, err := os.Stat(filepath.Join(dir, m.bin, name)); err != nil || !program().MatchString(name) {
		return fmt.Errorf("%s %s has no program %q", pl.pkg.Name, pl.After.Version, name)
	}
	if err := os.RemoveAll(filepath.Join(dir, ".cache")); err != nil {
		return err
	}
	if err := records(in.Store).Put(pl.After); err != nil {
		return err
	}
	pl.kept = true
	if old := pl.Before.Previous; old != "" {
		return os.RemoveAll(filepath.Join(in.Store.Dir, filepath.Base(old)))
	}
	return nil
}

// unchanged returns an error if the lock is not the one that the plan is of.
func (pl *Plan) unchanged(m manager, dir string) error {
	text, _, err := m.readLock(dir)
	if sum := sha256.Sum256(text); err == nil && hex.EncodeToString(sum[:]) != pl.After.SHA256 {
		err = fmt.Errorf("%s is not what you were asked about any more: nothing is installed", filepath.Join(dir, m.lock))
	}
	return err
}

// Discard removes what is not installed.
func (pl *Plan) Discard() {
	if !pl.kept {
		_ = os.RemoveAll(filepath.Join(pl.installer.Store.Dir, pl.After.Dir)) // what stays is used by nothing
	}
}

// configured are variables by which people tell package managers where the registry is, and how to
// reach it. Such an address may hold a password.
func configured() []string {
	return []string{
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
		"npm_config_registry", "NPM_CONFIG_REGISTRY", "UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_NATIVE_TLS", "UV_PYTHON",
	}
}

// run runs the commands of a manager, one after the other, in the directory of a package, which is
// all that they write.
func (in Installer) run(ctx context.Context, m manager, dir string, commands [][]string) error {
	policy, err := sandbox.Standard(dir)
	if err != nil {
		return err
	}
	policy.Network, policy.Env = sandbox.NetworkFull, configured()
	policy.Files.Show = []string{in.Store.Dir, filepath.Join(in.Home, ".npmrc")} // the registry, and the login at it
	policy.Files.Read = in.readable(m.programs)
	for _, v := range m.env {
		name, _, _ := strings.Cut(v, "=")
		policy.Env = append(policy.Env, name)
	}
	for _, argv := range commands {
		r, err := in.Box.Run(ctx, policy, sandbox.Spec{Argv: argv, Dir: dir, Env: m.env, Together: true, Keep: 4 << 10})
		if err != nil {
			return fmt.Errorf("%s: %w", strings.Join(argv[:2], " "), err)
		}
		if r.Code != 0 {
			return fmt.Errorf("%s failed with status %d: %s", strings.Join(argv[:2], " "), r.Code,
				strings.ReplaceAll(visible.Escape(strings.TrimSpace(r.Stdout.String())), `\n`, "\n"))
		}
	}
	return nil
}

// readable returns where programs and their dependencies are installed: the directory of each, of the files it
// links to, and of a script also the directory above, which has the rest of it. Paths are free of
// links.
func (in Installer) readable(programs []string) (paths []string) {
	for _, name := range programs {
		if at, err := exec.LookPath(name); err == nil {
			real, _ := filepath.EvalSymlinks(at) // LookPath found it
			if paths = append(paths, filepath.Dir(at), filepath.Dir(real)); filepath.Ext(real) == ".js" {
				paths = append(paths, filepath.Dir(filepath.Dir(real)))
			}
		}
	}
	for _, name := range []string{".npmrc", ".config/uv", ".local/share/uv", ".pyenv", ".nvm", ".volta", ".asdf", ".local/share/fnm", ".local/share/mise"} {
		paths = append(paths, filepath.Join(in.Home, name))
	}
	for i, path := range paths {
		paths[i], _ = filepath.EvalSymlinks(path) // "" is not there
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}
