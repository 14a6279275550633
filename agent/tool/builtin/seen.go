package builtin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"

	"symbio/agent/tool"
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
	// files has the content of each file, by its absolute path (workdir.key); guarded by mu.
	files map[string]fingerprint
	// order has the paths in the order in which they were first recorded; guarded by mu.
	order []string
}

// noteFile records the content of a file that the agent has read or written, for its later lives, too.
func noteFile(ctx context.Context, path string, f fingerprint) {
	tool.Notes[readFiles](ctx).note(path, f)
	tool.RecordFile(ctx, path, hex.EncodeToString(f[:]))
}

// knownFile returns the recorded content of a file; false if the agent has not read it, or it was
// forgotten.
func knownFile(ctx context.Context, path string) (f fingerprint, ok bool) {
	if f, ok = tool.Notes[readFiles](ctx).of(path); ok {
		return f, true
	}
	sum, err := hex.DecodeString(tool.KnownFile(ctx, path))
	return f, err == nil && copy(f[:], sum) == len(f)
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

// of returns the recorded content of a file; false if there is none.
func (s *readFiles) of(path string) (fingerprint, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.files[path]
	return f, ok
}
