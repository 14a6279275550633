package guest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/coder/acp-go-sdk"

	"symbio/agent/tool"
)

// maxConsents is how many answers of people are kept at a time.
const maxConsents = 64

// maxShown is the size of a text of a change up to which a person was surely shown all of it, in bytes.
const maxShown = 16 << 10

// consents are what a person has allowed when the program asked for it, and what the program has not done yet in its present prompt.
// So a person is asked once where a program asks first, and then does the same by its client. The zero value is usable, by many
// goroutines.
type consents struct {
	mu  sync.Mutex
	all []consent // guarded by mu
}

// consent is one action that a person has allowed.
type consent struct {
	*tool.Consent
	diff *acp.ToolCallContentDiff // what the person was shown of a file; nil = nothing
}

// clear forgets the answers, because a prompt begins or ends.
func (s *consents) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}

// add keeps a yes to a call that the program has reported.
func (s *consents) add(c *tool.Consent, t report) {
	path, _ := c.Decision.Args["file_path"].(string)
	d := t.diff(path)
	if d != nil && (t.change(c.Decision.Args).Diff == "" || len(d.NewText) > maxShown || d.OldText != nil && len(*d.OldText) > maxShown) {
		d = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) < maxConsents {
		s.all = append(s.all, consent{c, d})
	}
}

// consent returns the yes to exactly this call, once; nil = there is none.
func (g *Guest) consent(ctx context.Context, d tool.Decision) *tool.Consent {
	s := &g.consents
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(c consent) bool { return c.covers(ctx, d, g) })
	if i < 0 {
		return nil
	}
	found := s.all[i].Consent
	s.all = slices.Delete(s.all, i, i+1)
	return found
}

// covers reports whether a call is what was allowed: the same command, or the same file with what the person was shown of it.
func (c consent) covers(ctx context.Context, d tool.Decision, g *Guest) bool {
	asked := c.Decision
	same := func(name string) bool { return asked.Args[name] == d.Args[name] }
	switch d.Tool {
	case "Bash":
		return asked.Tool == d.Tool && same("command") && same("access")
	case "Read":
		return asked.Tool == d.Tool && same("file_path")
	case "Write":
		content, _ := d.Args["content"].(string)
		return asked.Tool == "Edit" && same("file_path") && c.diff != nil && g.makes(ctx, c.diff, content)
	}
	return false
}

// makes reports whether a change of a file, as it is now, gives it that content and no other.
func (g *Guest) makes(ctx context.Context, d *acp.ToolCallContentDiff, content string) bool {
	now, err := readText(ctx, d.Path, g.cfg.Constrain)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	old := ""
	if d.OldText != nil {
		old = *d.OldText
	}
	if now == old {
		return content == d.NewText
	}
	return old != "" && strings.Count(now, old) == 1 && content == strings.Replace(now, old, d.NewText, 1)
}
