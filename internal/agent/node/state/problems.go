package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Problem is something in the state directory that keeps nodes from working, or
// secrets from being secret.
type Problem struct {
	Path, Why, Fix string
}

// Problems checks owners and modes of the state directory and changes nothing.
// A directory that does not exist yet is checked for whether it can be made.
func (s Dir) Problems() ([]Problem, error) {
	if _, err := os.Stat(string(s)); errors.Is(err, fs.ErrNotExist) {
		return s.unmade(), nil
	}
	const writable, any = 0o022, 0o077
	p := &inspection{}
	p.look(string(s), true, writable)
	p.look(s.Authority(), true, writable)
	p.look(filepath.Join(s.Authority(), "authority.pem"), false, any)
	p.look(s.Cluster(), true, any) // the authority of a cluster that was made here
	p.look(filepath.Join(string(s), "nodes"), true, writable)
	p.look(s.allowed(), true, any)
	p.look(s.checkpoints(), true, any)
	p.look(s.Packages().Dir, true, any)
	entries, err := os.ReadDir(filepath.Join(string(s), "nodes"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p.found, err
	}
	for _, e := range entries {
		p.look(s.Node(e.Name()).path(), true, any) // the control socket is in it
		p.look(s.Node(e.Name()).Key(), false, any)
		p.look(s.Node(e.Name()).Standing(), false, any)
		p.look(s.Node(e.Name()).member(), true, any)
	}
	return p.found, errors.Join(p.errs...)
}

// unmade returns what would keep a first node from making the directory.
func (s Dir) unmade() []Problem {
	for dir := filepath.Dir(string(s)); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			continue
		}
		if err == nil && info.IsDir() && isWritable(dir) {
			return nil
		}
		return []Problem{{string(s), "it does not exist, and cannot be made in " + dir, "make it yours: mkdir -p -m 700 " + string(s) + ", or set XDG_STATE_HOME to a directory of your own"}}
	}
}

// inspection collects problems, and errors of the checks themselves.
type inspection struct {
	found []Problem
	errs  []error
}

// look checks one path, if it exists. Other users must not have the permissions
// in closed.
func (p *inspection) look(path string, dir bool, closed fs.FileMode) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		p.errs = append(p.errs, err)
		return
	}
	mode := "600"
	if dir {
		mode = "700"
	}
	switch open := modeOf(info) & closed; {
	case info.IsDir() != dir:
		p.found = append(p.found, Problem{path, "it has the wrong type, file or directory", "move it away"})
	case !isOwn(info):
		p.found = append(p.found, Problem{path, "it belongs to another user", "give it to the user who runs the node: chown"})
	case open != 0:
		p.found = append(p.found, Problem{path, fmt.Sprintf("other users have access to it (mode %04o)", info.Mode().Perm()), "chmod " + mode + " " + path})
	}
}
