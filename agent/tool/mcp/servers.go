package mcp

import (
	"fmt"
	"reflect"
	"slices"
)

// SetServers has these servers in the place of those that it had, in the order of their files as Config.Servers: an entry that
// is as it was goes on as it is, any other ends with the calls that it has, and what is new starts when it is needed. Who
// is trusted is asked anew. It does not wait for what ends.
func (m *Manager) SetServers(list []Server) {
	list = m.checkEntries(list)
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
		i := slices.IndexFunc(before, func(s *server) bool { return same(s.Server, entry) })
		if i >= 0 {
			before[i].setLine(entry.Line)
			m.servers = append(m.servers, before[i])
			before = slices.Delete(slices.Clone(before), i, i+1)
			continue
		}
		s := newServer(m, entry)
		m.servers = append(m.servers, s)
		switch {
		case s.Problem != "" || s.Disabled:
		case m.ended:
			late = append(late, s)
		default:
			m.unstarted = append(m.unstarted, s)
		}
	}
	for _, s := range before {
		s.retire()
	}
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// checkEntries says of each entry whether it may be started here.
func (m *Manager) checkEntries(list []Server) []Server {
	list = slices.Clone(list)
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
			s.Problem = fmt.Sprintf("it comes with the project, and nobody has trusted it yet: symbio mcp trust %s", part)
		}
		if !twice {
			parts[part] = s.File
		}
	}
	return list
}

// same says that an entry is what it was, wherever in its file it stands now.
func same(a, b Server) bool {
	a.Line, b.Line = 0, 0
	return reflect.DeepEqual(a, b)
}

// all are the servers as they are now.
func (m *Manager) all() []*server {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.servers
}
