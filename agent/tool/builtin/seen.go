package builtin

import (
	"crypto/sha256"
	"sync"
)

// maxSeen limits the files that are remembered for an agent. When it is exceeded the oldest is
// forgotten, and the agent has to read that file again before it can edit it.
const maxSeen = 4096

// fingerprint is the SHA-256 of a file's content. It takes less memory than the content, and no two
// contents with the same one can be found.
type fingerprint [sha256.Size]byte

// readFiles records the files that one agent has read or written, with their content at that time
// (tool.Notes). Parallel calls of a turn use it at once. Its zero value is empty and ready, as
// tool.Notes requires.
type readFiles struct {
	mu sync.Mutex
	// files has the content of each file, by its absolute path (Workspace.key); guarded by mu.
	files map[string]fingerprint
	// order has the paths in the order in which they were first recorded; guarded by mu.
	order []string
}

// note records the content of a file, in place of an earlier record. At maxSeen files it forgets
// the one that was recorded first.
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

// of returns the recorded content of a file; false if the agent has not read it, or it was
// forgotten.
func (s *readFiles) of(path string) (fingerprint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.files[path]
	return f, ok
}
