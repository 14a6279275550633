package undo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"symbio/agent/session"
	"symbio/security/visible"
)

// Redo in place of an exchange's number undoes the latest undo.
const Redo = -1

// ErrNothing is wrapped by the error of New if there is nothing to put back.
var ErrNothing = errors.New("no change of a file is left to put back")

// Plan says which files an undo puts back, and why not others.
type Plan struct {
	Session string `json:"session"`
	// Turn is the number of the first exchange whose changes are undone, from 1; Redo = those of an
	// undo. Task is what the exchange was about.
	Turn int    `json:"turn"`
	Task string `json:"task,omitempty"`
	// Dir is the session's directory. Only files below it are put back.
	Dir   string  `json:"dir"`
	Files []*File `json:"files"`

	store session.Store
	// room is how many more bytes of contents the session may keep.
	room int64
}

// change is an edit of a file, with the session that has the content before it.
type change struct {
	*session.FileEdit
	id      int64 // of the entry
	session string
}

// history is what is recorded of a tree of sessions.
type history struct {
	root    session.Info
	store   session.Store
	tasks   []session.Entry // the exchanges of the root
	changes []change        // of all sessions of the tree, in order
	room    int64
}

// New returns the plan that undoes exchange number turn of a session, from 1, and all later ones. With
// 0 it is the latest exchange of which something is left to put back; with Redo it is the latest undo.
// The error wraps ErrNothing, session.ErrNotFound, or session.ErrInUse if the session has a task
// without an end.
func New(ctx context.Context, store session.Store, id string, turn int) (*Plan, error) {
	h, err := load(ctx, store, id)
	if err != nil {
		return nil, err
	}
	switch {
	case turn < Redo || turn > len(h.tasks):
		return nil, fmt.Errorf("session %s has no exchange %d; it has %d", h.root.ID, turn, len(h.tasks))
	case turn == Redo:
		return h.plan(ctx, turn, h.latestUndo())
	case turn > 0:
		return h.plan(ctx, turn, h.since(turn))
	}
	for known, turn := 0, len(h.tasks); turn > 0; turn-- {
		changes := h.since(turn)
		if len(changes) == known {
			continue // the exchange changed no file
		}
		known = len(changes)
		if p, err := h.plan(ctx, turn, changes); !errors.Is(err, ErrNothing) {
			return p, err
		}
	}
	return nil, fmt.Errorf("session %s: %w", h.root.ID, ErrNothing)
}

// load reads the entries of a session and of its sub-agents' sessions.
func load(ctx context.Context, store session.Store, id string) (*history, error) {
	tree, err := store.Sessions(ctx, session.Filter{Root: id})
	if err != nil {
		return nil, err
	}
	h := &history{store: store}
	if h.root, err = session.Find(tree, id); err != nil {
		return nil, err
	}
	for _, s := range tree {
		if s.State == session.Working || s.Open && s.ID == id {
			return nil, fmt.Errorf("session %s: %w, or its task was interrupted and can go on; wait for the end of the task, or resume it first", s.ID, session.ErrInUse)
		}
		entries, err := store.Entries(ctx, s.ID, 0)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			switch {
			case e.Kind == session.Task && s.ID == id:
				h.tasks = append(h.tasks, e)
			case e.Edit != nil:
				h.changes = append(h.changes, change{e.Edit, e.ID, s.ID})
				if s.ID == id {
					h.room += e.Edit.Size
				}
			}
		}
	}
	h.room = session.MaxContents - h.room
	slices.SortFunc(h.changes, func(a, b change) int { return cmp.Compare(a.id, b.id) }) // the store numbers all sessions together
	return h, nil
}

// since returns the changes since the beginning of an exchange, those of sub-agents included.
func (h *history) since(turn int) []change {
	i := slices.IndexFunc(h.changes, func(c change) bool { return c.id > h.tasks[turn-1].ID })
	if i < 0 {
		return nil
	}
	return h.changes[i:]
}

// callPrefix begins the Call of the changes that an undo made; the rest is different in each undo.
const callPrefix = "undo:"

// latestUndo returns the changes that the latest undo made.
func (h *history) latestUndo() (found []change) {
	call := ""
	for _, c := range slices.Backward(h.changes) {
		if call == "" && strings.HasPrefix(c.Call, callPrefix) {
			call = c.Call
		}
		if call != "" && c.Call == call {
			found = append(found, c)
		}
	}
	slices.Reverse(found)
	return found
}

// plan returns the plan that undoes these changes.
func (h *history) plan(ctx context.Context, turn int, changes []change) (*Plan, error) {
	p := &Plan{Session: h.root.ID, Turn: turn, store: h.store, room: h.room}
	if turn > 0 {
		line, _, _ := strings.Cut(h.tasks[turn-1].Message.Text, "\n")
		p.Task = visible.TruncateRunes(line, 60)
	}
	var err error
	if p.Dir, err = filepath.EvalSymlinks(h.root.Dir); err != nil {
		return nil, fmt.Errorf("the directory of session %s: %w", h.root.ID, err)
	}
	root, err := os.OpenRoot(p.Dir)
	if err != nil {
		return nil, fmt.Errorf("the directory of session %s: %w", h.root.ID, err)
	}
	defer root.Close()
	of := map[string][]change{}
	var order []string
	for _, c := range changes {
		if of[c.Path] == nil {
			if turn != Redo && strings.HasPrefix(c.Call, callPrefix) {
				continue // a person's undo of earlier exchanges; what these exchanges changed comes after it
			}
			order = append(order, c.Path)
		}
		of[c.Path] = append(of[c.Path], c)
	}
	for _, path := range order {
		f := &File{Path: path, name: path}
		if err := f.inspect(ctx, p, root, of[path]); err != nil {
			f.Refused = err.Error()
		}
		if f.Refused != "" || f.now != f.before {
			p.Files = append(p.Files, f)
		}
	}
	if len(p.Files) == 0 {
		return nil, fmt.Errorf("session %s: %w", h.root.ID, ErrNothing)
	}
	return p, nil
}

// Possible returns how many files can be put back.
func (p *Plan) Possible() (n int) {
	for _, f := range p.Files {
		if f.Refused == "" {
			n++
		}
	}
	return n
}

// maxDiff limits the lines of a difference that Text shows.
const maxDiff = 200

// Text returns the plan for a person: the difference of each file, and why others are refused. It is
// not escaped.
func (p *Plan) Text() string {
	var b strings.Builder
	if p.Turn == Redo {
		fmt.Fprintf(&b, "The latest undo in %s is undone:\n", p.Dir)
	} else {
		fmt.Fprintf(&b, "Exchange %d (%s) and later ones are undone in %s:\n", p.Turn, p.Task, p.Dir)
	}
	for _, f := range p.Files {
		if f.Refused != "" {
			fmt.Fprintf(&b, "\nNot put back: %s: %s\n", f.name, f.Refused)
			continue
		}
		lines := strings.SplitAfter(f.Diff, "\n")
		b.WriteString("\n" + strings.Join(lines[:min(len(lines), maxDiff)], ""))
		if len(lines) > maxDiff {
			fmt.Fprintf(&b, "[%d more lines of %s]\n", len(lines)-maxDiff, f.name)
		}
	}
	return b.String()
}
