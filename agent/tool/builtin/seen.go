package builtin

import (
	"crypto/sha256"
	"sync"
)

// maxSeen is how many files an agent is remembered to have read: more than one works on at a time. Of those that
// were forgotten it has to read again what it edits.
const maxSeen = 4096

// fingerprint is a file's content as an agent knows it.
type fingerprint [sha256.Size]byte

// readFiles are the files that one agent has read or written, as they were then (tool.Notes).
type readFiles struct {
	mu    sync.Mutex
	files map[string]fingerprint // by absolute path
	order []string               // the oldest first
}

func (s *readFiles) note(path string, f fingerprint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.files == nil {
		s.files = map[string]fingerprint{}
	}
	if _, known := s.files[path]; !known {
		if len(s.order) >= maxSeen {
			delete(s.files, s.order[0])
			s.order = s.order[1:]
		}
		s.order = append(s.order, path)
	}
	s.files[path] = f
}

func (s *readFiles) of(path string) (fingerprint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.files[path]
	return f, ok
}
