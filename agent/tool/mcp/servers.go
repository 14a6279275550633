package mcp

import (
	"fmt"
	"reflect"
	"slices"
)

// SetServers replaces the servers by list, which is in the order of Config.Servers. A server whose
// entry is unchanged keeps its connection. A removed or changed one ends together with its calls. A
// new one starts when it is first needed. Config.Trusted is asked again for each entry of a
// project. SetServers does not wait for servers that end. It may be called before, during and after
// Run; after Run new servers are Stopped for good.
func (m *Manager) SetServers(list []Server) {
	list = m.checkEntries(list)
	// late are servers that came after the end of Run. They are stopped after mu is released,
	// because stop calls Report.
	var late []*server
	defer func() {
		for _, s := range late {
			s.stop()
		}
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.servers
	m.servers = make([]*server, 0, len(list))
	for _, entry := range list {
		// A server is found again by its whole entry, so that any change of it restarts the server.
		i := slices.IndexFunc(before, func(s *server) bool { return same(s.entry, entry) })
		if i >= 0 {
			before[i].setLine(entry.Line)
			m.servers = append(m.servers, before[i])
			// before is cloned, because all may have returned the slice to a reader.
			before = slices.Delete(slices.Clone(before), i, i+1)
			continue
		}
		s := newServer(m, entry)
		m.servers = append(m.servers, s)
		switch {
		// Such a server is listed by Status and never started.
		case entry.Problem != "" || entry.Disabled:
		case m.ended:
			late = append(late, s)
		default:
			m.unstarted = append(m.unstarted, s)
		}
	}
	// The remaining servers have no entry any more.
	for _, s := range before {
		s.retire()
	}
	// A token that is there already tells Run enough.
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// checkEntries returns a copy of list in which each entry that must not be started has a Problem: a
// second server of the same name, or an entry of a project that is not trusted.
func (m *Manager) checkEntries(list []Server) []Server {
	list = slices.Clone(list)
	// Two names with the same ServerPart would share their rules and tool names, so only the first
	// may be started.
	parts := map[string]string{}
	for i := range list {
		s := &list[i]
		part := ServerPart(s.Name)
		first, twice := parts[part]
		switch {
		case s.Problem != "":
		case twice:
			s.Problem = fmt.Sprintf("another server of that name stands before it, in %s", first)
		case s.Project && (m.cfg.Trusted == nil || !m.cfg.Trusted(*s)):
			s.Problem = fmt.Sprintf("it comes with the project, and it is not trusted yet: symbio mcp trust %s", part)
		}
		if !twice {
			parts[part] = s.File
		}
	}
	return list
}

// same reports whether two entries are equal, apart from their lines in the file: an edit above an
// entry moves it and must not restart its server.
func same(a, b Server) bool {
	a.Line, b.Line = 0, 0
	return reflect.DeepEqual(a, b)
}

// all returns the servers in the order of their entries. The slice is replaced and never written
// to, so it may be read without a lock.
func (m *Manager) all() []*server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.servers
}
