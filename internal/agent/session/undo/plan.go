package undo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"symbio/agent/session"
)

// Redo in place of an exchange's number undoes the latest undo.
const Redo = -1

// ErrNothing is wrapped by the error of New if there is nothing to put back.
var ErrNothing = errors.New("no change of a file is left to put back")

// Plan says which files an undo puts back, and why not others.
type Plan struct {
	Session string `json:"session"`
	// Turn is the number of the first exchange whose changes are undone, from 1; Redo = the changes of an
	// undo.
	Turn int `json:"turn"`
	// Dir is the session's directory. Only files below it are put back.
	Dir   string  `json:"dir"`
	Files []*File `json:"files"`
	store session.Store
}

// change is an edit of a file, with the session that has the content before it.
type change struct {
	*session.FileEdit
	id      int64 // of the entry
	session string
}

// ParseTurn reads the number of an exchange as a person writes it: "" is 0, the latest; "redo" is Redo.
func ParseTurn(text string) (int, error) {
	switch turn, err := strconv.Atoi(text); {
	case text == "":
		return 0, nil
	case text == "redo":
		return Redo, nil
	case err == nil && turn > 0:
		return turn, nil
	}
	return 0, fmt.Errorf("%q is no exchange: write its number, from 1, or redo", text)
}

// New returns the plan that undoes exchange number turn of a session, from 1, and all later ones. With
// 0 it is the latest exchange with something left to put back; with Redo it is the latest undo.
// The error wraps ErrNothing, session.ErrNotFound, or session.ErrInUse if the session has a task
// without an end.
func New(ctx context.Context, store session.Store, id string, turn int) (*Plan, error) {
	tasks, changes, dir, err := load(ctx, store, id)
	if err != nil {
		return nil, err
	}
	p := &Plan{Session: id, Turn: turn, Dir: dir, store: store}
	switch {
	case turn > len(tasks):
		return nil, fmt.Errorf("session %s has no exchange %d; it has %d", id, turn, len(tasks))
	case turn == Redo:
		if i := slices.IndexFunc(changes, func(c change) bool { return c.IsUndo() }); i >= 0 { // the latest ones are first
			changes = slices.DeleteFunc(slices.Clone(changes), func(c change) bool { return c.Call != changes[i].Call })
			err = p.find(ctx, changes)
		}
	case turn > 0:
		err = p.find(ctx, since(changes, tasks[turn-1]))
	default:
		for p.Turn = len(tasks); p.Turn > 0; p.Turn-- {
			if err = p.find(ctx, since(changes, tasks[p.Turn-1])); err != nil || len(p.Files) > 0 {
				break
			}
		}
	}
	if err == nil && len(p.Files) == 0 {
		err = ErrNothing
	}
	if err != nil {
		return nil, fmt.Errorf("undo in session %s: %w", id, err)
	}
	return p, nil
}

// load returns the IDs of the tasks of a session, and the changes of files in it and in its
// sub-agents' sessions, the latest first.
func load(ctx context.Context, store session.Store, id string) (tasks []int64, changes []change, dir string, err error) {
	tree, err := store.Sessions(ctx, session.Filter{Root: id})
	if err == nil && len(tree) == 0 {
		err = fmt.Errorf("session %s: %w, or it is that of a sub-agent", id, session.ErrNotFound)
	}
	for _, s := range tree {
		if s.State == session.Working || s.CanGoOn() && s.ID == id {
			return nil, nil, "", fmt.Errorf("session %s: %w, or its task was interrupted and can go on; wait for the end of the task, or resume it first", s.ID, session.ErrInUse)
		}
		entries, e := store.Entries(ctx, s.ID, 0)
		err = errors.Join(err, e)
		for _, e := range entries {
			switch {
			case e.Kind == session.Task && s.ID == id:
				tasks = append(tasks, e.ID)
			case e.Kind == session.Edit:
				changes = append(changes, change{e.Edit, e.ID, s.ID})
			}
		}
		if s.ID == id && err == nil {
			dir, err = filepath.EvalSymlinks(s.Dir)
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(b.id, a.id) }) // the store numbers all sessions together
	return tasks, changes, dir, err
}

// since returns the changes after an entry.
func since(changes []change, id int64) []change {
	if i := slices.IndexFunc(changes, func(c change) bool { return c.id < id }); i >= 0 {
		return changes[:i]
	}
	return changes
}

// find sets the files that are not as they were before these changes.
func (p *Plan) find(ctx context.Context, changes []change) error {
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, c := range slices.Backward(changes) {
		i := slices.IndexFunc(p.Files, func(f *File) bool { return f.Path == c.Path })
		if i < 0 && c.IsUndo() && p.Turn != Redo {
			continue // it undid earlier exchanges; what these ones changed comes after it
		}
		if i < 0 {
			i, p.Files = len(p.Files), append(p.Files, &File{Path: c.Path, name: c.Path})
		}
		p.Files[i].changes = append(p.Files[i].changes, c)
	}
	p.Files = slices.DeleteFunc(p.Files, func(f *File) bool {
		if err := f.inspect(ctx, p, root); err != nil {
			f.Refused = err.Error()
		}
		return f.Refused == "" && f.now == f.before
	})
	return nil
}

// Text returns the plan for a person: the difference of each file, and why others are refused. It is
// not escaped.
func (p *Plan) Text() string {
	what := "the latest undo"
	if p.Turn != Redo {
		what = fmt.Sprintf("exchange %d and what came after it", p.Turn)
	}
	text := fmt.Sprintf("Undo of %s in %s:", what, p.Dir)
	for _, f := range p.Files {
		text += "\n\n" + f.Diff
		if f.Refused != "" {
			text += f.name + " is not put back: " + f.Refused
		}
	}
	return text
}
