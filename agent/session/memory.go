package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is a Store that keeps sessions until the program ends. Its zero value is usable.
type Memory struct {
	mu       sync.Mutex
	last     int64                // the ID of the latest entry; guarded by mu
	infos    map[string]Info      // guarded by mu
	entries  map[string][]Entry   // guarded by mu
	contents map[[2]string][]byte // by session and hash; guarded by mu
	sizes    map[string]int64     // bytes, by session; guarded by mu
}

// Commit implements Store.
func (m *Memory) Commit(writes []Write) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.infos == nil {
		m.infos, m.entries, m.contents, m.sizes = map[string]Info{}, map[string][]Entry{}, map[[2]string][]byte{}, map[string]int64{}
	}
	for _, w := range writes {
		info := w.Info
		if known, ok := m.infos[info.ID]; ok && known.Title != "" {
			info.Title = known.Title
		}
		if info.Root != "" {
			m.infos[info.ID] = info
		}
		for _, e := range w.Entries {
			m.last++
			e.ID = m.last
			if e.Edit != nil && e.Edit.Content != nil {
				m.contents[[2]string{info.ID, e.Edit.Before}] = e.Edit.Content
				m.sizes[info.ID] += int64(len(e.Edit.Content))
				edit := *e.Edit
				edit.Content, e.Edit = nil, &edit
			}
			data, err := json.Marshal(e)
			if err != nil {
				return err
			}
			m.sizes[info.ID] += int64(len(data))
			m.entries[info.ID] = append(m.entries[info.ID], e)
		}
	}
	return nil
}

// Sessions implements Store.
func (m *Memory) Sessions(_ context.Context, f Filter) (all []Info, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range m.infos {
		if (f.Dir == "" || f.Dir == i.Dir) && (f.Parent == "" || f.Parent == i.Parent) && (f.Root == "" || f.Root == i.Root) &&
			(len(f.States) == 0 || slices.Contains(f.States, i.State)) && (!f.Roots || i.Parent == "") && (!f.Keep || i.Keep) {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b Info) int {
		if c := b.Updated.Compare(a.Updated); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	if f.Limit > 0 && len(all) > f.Limit {
		all = all[:f.Limit]
	}
	return all, nil
}

// Entries implements Store.
func (m *Memory) Entries(_ context.Context, id string, after int64) (all []Entry, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.infos[id]; !ok {
		return nil, notFound(id)
	}
	for _, e := range m.entries[id] {
		if e.ID > after {
			all = append(all, e)
		}
	}
	return all, nil
}

// Search implements Store.
func (m *Memory) Search(_ context.Context, words string, limit int) (found []Match, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	terms := strings.Fields(strings.ToLower(words))
	for id, entries := range m.entries {
		for _, e := range entries {
			text := e.Words()
			lower := strings.ToLower(text)
			if text != "" && len(terms) > 0 && !slices.ContainsFunc(terms, func(w string) bool { return !strings.Contains(lower, w) }) {
				found = append(found, Match{Session: m.infos[id], Entry: e.ID, Kind: e.Kind, Text: Around(text, words)})
			}
		}
	}
	slices.SortFunc(found, func(a, b Match) int { return cmp.Compare(b.Entry, a.Entry) })
	return found[:min(len(found), cmp.Or(limit, len(found)))], nil
}

// Content implements Store.
func (m *Memory) Content(_ context.Context, id, hash string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if content, ok := m.contents[[2]string{id, hash}]; ok {
		return content, nil
	}
	return nil, fmt.Errorf("content %.12s of session %s: %w", hash, id, ErrNotFound)
}

// Rename implements Store.
func (m *Memory) Rename(_ context.Context, id, title string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, ok := m.infos[id]
	if !ok {
		return notFound(id)
	}
	i.Title = title
	m.infos[id] = i
	return nil
}

// Delete implements Store.
func (m *Memory) Delete(_ context.Context, ids ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		if _, ok := m.infos[id]; !ok {
			return notFound(id)
		}
	}
	for _, id := range ids {
		for _, e := range m.entries[id] {
			if e.Edit != nil {
				delete(m.contents, [2]string{id, e.Edit.Before})
			}
		}
		delete(m.infos, id)
		delete(m.entries, id)
		delete(m.sizes, id)
	}
	return nil
}

// Prune implements Store.
func (m *Memory) Prune(ctx context.Context, before time.Time, maxBytes int64, except ...string) (int, error) {
	return Prune(ctx, m, m.size, before, maxBytes, except)
}

// size returns the bytes that the sessions take, as JSON.
func (m *Memory) size(context.Context) (bytes int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.sizes {
		bytes += n
	}
	return bytes, nil
}

// Recover implements Store.
func (m *Memory) Recover(context.Context) (all []Info, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, i := range m.infos {
		if i.State == Working {
			i.State = i.Recovered()
			m.infos[id] = i
			all = append(all, i)
		}
	}
	return all, nil
}

// Close implements Store.
func (m *Memory) Close() error { return nil }

func notFound(id string) error {
	return fmt.Errorf("session %q: %w; symbio sessions list has them", id, ErrNotFound)
}
