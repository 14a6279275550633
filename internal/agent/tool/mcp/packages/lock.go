package packages

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"symbio/internal/security/lazyregexp"
)

// maxLock limits a lock file, in bytes: some ten thousand packages.
const maxLock = 16 << 20

// lockEntry is what a lock says of one package.
type lockEntry struct {
	Version string `json:"version"`
	// Integrity is the hash of the package; of UV the first of several.
	Integrity string `json:"integrity"`
	// InBundle is true for what lies in another package, and is hashed with it.
	InBundle bool `json:"inBundle"`
	// Resolved is where NPM found a package that is not from a registry: with --omit-lockfile-registry-resolved others have none.
	Resolved string `json:"resolved"`
	// HasShrinkwrap is true for a package of NPM with a lock of its own, by which npm ci installs what is not in this one.
	HasShrinkwrap bool `json:"hasShrinkwrap"`
}

// manager is what differs between package managers.
type manager struct {
	// wants is the file with the requested package, lock the one with what was resolved.
	wants, lock string
	// bin is the directory of the programs.
	bin string
	// resolve and install are the commands.
	resolve, install [][]string
	// env are the variables of both.
	env []string
	// programs are what the manager needs to run.
	programs []string
	// want returns the content of the file wants.
	want func(Package) []byte
	// read reads a lock, by names.
	read func(text []byte) (map[string]lockEntry, error)
	// program returns the name of a package's program that is installed in a directory.
	program func(dir string, p Package) string
}

// managers returns them by name. Their caches lie in the directory of the package, since the directory of the
// user must not be written.
func managers() map[string]manager {
	// npm runs a nested npm in a package from Git, which obeys that package's .npmrc: its key git names a program.
	npm := []string{
		"--ignore-scripts", "--package-lock=true", "--no-audit", "--no-fund", "--no-progress", "--omit-lockfile-registry-resolved",
		"--allow-git=none", "--allow-remote=none", "--allow-file=none", "--allow-directory=none", // known since npm 11
	}
	return map[string]manager{
		NPM: {
			wants: "package.json", lock: "package-lock.json", bin: "node_modules/.bin",
			resolve:  [][]string{append([]string{"npm", "install", "--package-lock-only"}, npm...)},
			install:  [][]string{append([]string{"npm", "ci"}, npm...)},
			env:      []string{"npm_config_cache=.cache", "npm_config_update_notifier=false", "npm_config_git=/nonexistent"},
			programs: []string{"npm", "node"},
			want: func(p Package) []byte {
				return fmt.Appendf(nil, `{"name": "mcp-server", "private": true, "dependencies": {%q: %q}}`, p.Name, cmp.Or(p.Version, "latest")) // neither has what JSON escapes
			},
			read: readNPM, program: programOfNPM,
		},
		UV: {
			wants: "requirements.in", lock: "requirements.txt", bin: ".venv/bin",
			resolve: [][]string{{"uv", "pip", "compile", "--quiet", "--no-build", "--generate-hashes", "--no-header", "--no-annotate",
				"--output-file", "requirements.txt", "requirements.in"}},
			install: [][]string{{"uv", "venv", "--quiet", ".venv"},
				{"uv", "pip", "sync", "--quiet", "--no-build", "--require-hashes", "--python", ".venv", "requirements.txt"}},
			env:      []string{"UV_CACHE_DIR=.cache", "UV_PYTHON_DOWNLOADS=never", "UV_LINK_MODE=copy"},
			programs: []string{"uv", "python3"},
			want: func(p Package) []byte {
				if p.Version != "" && !strings.ContainsAny(p.Version[:1], "=<>~!") {
					p.Version = "==" + p.Version
				}
				return []byte(p.Name + p.Version + "\n")
			},
			read:    readUV,
			program: func(_ string, p Package) string { return plainName(p.Name) },
		},
	}
}

// plainName returns a name without the extras of UV and without the scope of NPM.
func plainName(name string) string {
	name, _, _ = strings.Cut(name, "[")
	return path.Base(name)
}

// readNPM reads a package-lock.json. The names are paths below node_modules.
func readNPM(text []byte) (map[string]lockEntry, error) {
	var lock struct {
		Packages map[string]lockEntry `json:"packages"`
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, err
	}
	all := map[string]lockEntry{}
	for at, l := range lock.Packages {
		name, ok := strings.CutPrefix(at, "node_modules/")
		switch {
		case at == "":
		case !ok || l.Resolved != "":
			return nil, fmt.Errorf("the package %s is not from a registry but from %q (npm before 9 says so of all): it is not installed", at, l.Resolved)
		case l.HasShrinkwrap:
			return nil, fmt.Errorf("the package %s has an npm-shrinkwrap.json, and what that names is not in the lock: it is not installed", at)
		default:
			all[name] = l
		}
	}
	return all, nil
}

// pinned is a line of a requirements.txt, without what is behind the version.
var pinned = lazyregexp.New(`^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?==([\w.+!-]+)`)

// readUV reads a requirements.txt, whose continued lines have hashes.
func readUV(text []byte) (map[string]lockEntry, error) {
	all, last := map[string]lockEntry{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		hash, isHash := strings.CutPrefix(line, "--hash=")
		match := pinned().FindStringSubmatch(line)
		switch {
		case line == "" || line[0] == '#':
		case isHash && last != "":
			if l := all[last]; l.Integrity == "" {
				l.Integrity = strings.TrimSuffix(hash, " \\")
				all[last] = l
			}
		case match == nil:
			return nil, fmt.Errorf("the package %q is not from a registry", line)
		default:
			last = match[1]
			all[last] = lockEntry{Version: match[2]}
		}
	}
	return all, nil
}

// programOfNPM reads the programs of an installed package from its package.json.
func programOfNPM(dir string, p Package) string {
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", filepath.FromSlash(p.Name), "package.json"))
	var of struct {
		Bin json.RawMessage `json:"bin"`
	}
	var several map[string]string
	if err != nil || json.Unmarshal(text, &of) != nil || json.Unmarshal(of.Bin, &several) != nil || len(several) != 1 {
		return plainName(p.Name) // a single text as bin has that name, too
	}
	return slices.Collect(maps.Keys(several))[0]
}

// find returns what a lock says of a package. The names of Python's packages are the same in
// another case, and with another of the separators.
func find(all map[string]lockEntry, p Package) (lockEntry, bool) {
	normal := func(name string) string {
		return strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(plainName(name)))
	}
	for name, l := range all {
		if name == p.Name || p.Manager == UV && normal(name) == normal(p.Name) {
			return l, true
		}
	}
	return lockEntry{}, false
}

// changes returns a line for each package that differs in two locks, sorted by names.
func changes(before, after map[string]lockEntry) (lines []string) {
	names := map[string]lockEntry{}
	maps.Copy(names, before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, is := cmp.Or(before[name].Version, "none"), cmp.Or(after[name].Version, "none")
		if was == is { // other content of the same version
			was, is = before[name].Integrity, after[name].Integrity
		}
		if was != is {
			lines = append(lines, name+": "+was+" -> "+is)
		}
	}
	return lines
}

// readLock reads and checks the lock in a directory.
func (m manager) readLock(dir string) ([]byte, map[string]lockEntry, error) {
	file := filepath.Join(dir, m.lock)
	if info, err := os.Lstat(file); err == nil && (!info.Mode().IsRegular() || info.Size() > maxLock) {
		return nil, nil, fmt.Errorf("%s is no regular file of at most %d MiB", file, maxLock>>20)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, nil, err
	}
	all, err := m.read(bytes.TrimSpace(text))
	if err != nil {
		return nil, nil, fmt.Errorf("the lock that %s wrote: %w", m.programs[0], err)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].Integrity == "" && !all[name].InBundle || all[name].Version == "" {
			return nil, nil, fmt.Errorf("the package %s comes without a hash or a version, as from another place than a registry: it is not installed", name)
		}
	}
	return text, all, nil
}
