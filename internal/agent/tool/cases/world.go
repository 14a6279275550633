package cases

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/agent/tool"
)

// World is the temporary directory in which the cases of a file run, one after the other. It
// changes the process's HOME for each case, so only one World may exist at a time.
type World struct {
	// base is the temporary directory, with links followed, because rules are matched with real
	// paths.
	base string
	// home is the HOME of the process before; had is whether it was set. Close restores it.
	home string
	had  bool
	// next is the number of the last case, which names its directory.
	next int
}

// NewWorld creates the directory. From the first case until Close, HOME is the current case's.
// HOME belongs to the whole process, so nothing else may depend on it meanwhile. The caller must
// close the World.
func NewWorld() (*World, error) {
	base, err := os.MkdirTemp("", "symbio-cases-")
	if err != nil {
		return nil, err
	}
	w := &World{}
	if w.base, err = filepath.EvalSymlinks(base); err != nil {
		return nil, err
	}
	w.home, w.had = os.LookupEnv("HOME")
	return w, nil
}

// Close restores HOME and removes the directory.
func (w *World) Close() error {
	if w.had {
		// This cannot fail: HOME had the same value before.
		_ = os.Setenv("HOME", w.home)
	} else {
		_ = os.Unsetenv("HOME")
	}
	return os.RemoveAll(w.base)
}

// path returns a path below the directory.
func (w *World) path(names ...string) string {
	return filepath.Join(append([]string{w.base}, names...)...)
}

// caseRun has the directories of one case.
type caseRun struct {
	// work is the workspace, outside a directory beside it, and home the HOME during the case.
	work, outside, home string
	// dir is the working directory of the call.
	dir string
}

// set creates the directories, files and links of a case, and sets HOME. Each case gets directories
// of its own, so that none sees the files of another. They stay until Close.
func (w *World) set(c Case) (*caseRun, error) {
	w.next++
	here := fmt.Sprint(w.next)
	s := &caseRun{work: w.path(here, "work"), outside: w.path(here, "outside"), home: w.path(here, "home")}
	s.dir = s.work
	dirs := []string{s.work, s.outside, s.home}
	for _, d := range c.Setup.Dirs {
		dirs = append(dirs, s.expand(d))
	}
	if c.Setup.CWD != "" {
		s.dir = s.at(c.Setup.CWD)
		dirs = append(dirs, s.dir)
	}
	for _, d := range dirs {
		if err := w.make(s.at(d), func(path string) error { return os.MkdirAll(path, 0o700) }); err != nil {
			return nil, err
		}
	}
	for _, name := range sorted(c.Setup.Files) {
		if err := w.make(s.at(name), func(path string) error { return os.WriteFile(path, []byte(c.Setup.Files[name]), 0o600) }); err != nil {
			return nil, err
		}
	}
	// Links come last, so that none of the files is written through one.
	for _, name := range sorted(c.Setup.Symlinks) {
		if err := w.make(s.at(name), func(path string) error { return os.Symlink(s.expand(c.Setup.Symlinks[name]), path) }); err != nil {
			return nil, err
		}
	}
	return s, os.Setenv("HOME", s.home)
}

// make creates one entry with do, and the directories above it. The entry must be inside the World,
// because a file of cases must not be able to write elsewhere.
func (w *World) make(path string, do func(string) error) error {
	if rel, err := filepath.Rel(w.base, path); err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("setup: %s is outside of ${WORK}, ${OUTSIDE} and ${HOME}", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	// The path is checked again with its links followed: one of an earlier entry could lead out.
	real, err := filepath.EvalSymlinks(filepath.Dir(path))
	if rel, relErr := filepath.Rel(w.base, real); err != nil || relErr != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("setup: %s is behind a link that leaves the directories of the case", path)
	}
	if err := do(path); err != nil {
		return fmt.Errorf("setup: %w", err)
	}
	return nil
}

// expand replaces ${WORK}, ${OUTSIDE} and ${HOME} by the directories.
func (s *caseRun) expand(text string) string {
	return strings.NewReplacer("${WORK}", s.work, "${OUTSIDE}", s.outside, "${HOME}", s.home).Replace(text)
}

// at returns the absolute path for a path of the setup, relative to the workspace.
func (s *caseRun) at(text string) string {
	path := s.expand(text)
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.work, path)
	}
	return filepath.Clean(path)
}

// expandAll expands every text in the arguments, and decodes them as a model's arguments are
// decoded.
func (s *caseRun) expandAll(v any) (map[string]any, error) {
	text, err := json.Marshal(s.walk(v))
	if err != nil {
		return nil, err
	}
	return tool.DecodeArgs(text)
}

// walk returns a copy of v with all texts expanded, keys included.
func (s *caseRun) walk(v any) any {
	switch v := v.(type) {
	case string:
		return s.expand(v)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = s.walk(e)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			out[s.expand(k)] = s.walk(e)
		}
		return out
	}
	return v
}

// in returns the rules with all texts expanded.
func (r rules) in(s *caseRun) rules {
	each := func(texts []string) []string {
		out := slices.Clone(texts)
		for i := range out {
			out[i] = s.expand(out[i])
		}
		return out
	}
	return rules{each(r.FinalDeny), each(r.Deny), each(r.Overrides), each(r.Allow), r.Default}
}

// sorted returns the keys in order, so that a case is always set up in the same way.
func sorted(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
