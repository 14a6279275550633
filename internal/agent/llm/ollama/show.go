package ollama

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"symbio/internal/agent/llm/wire"
	"symbio/internal/security/lazyregexp"
)

const (
	// showTimeout limits the question about a model: an Ollama reads the answer from a file.
	showTimeout = 2 * time.Second
	// showAgain is how long a server that did not answer is not asked again.
	showAgain = 30 * time.Second
	// maxShow bounds the answer, which has the licence and the template of the model.
	maxShow = 4 << 20
)

// details is what Ollama says of a model.
type details struct {
	// Parameters are lines of a name and a value, such as "num_ctx 8192".
	Parameters   string                     `json:"parameters"`
	Capabilities []string                   `json:"capabilities"`
	Info         map[string]json.RawMessage `json:"model_info"`
}

// isBlind reports whether the model is known to take no pictures.
func (d *details) isBlind() bool {
	return d != nil && len(d.Capabilities) > 0 && !slices.Contains(d.Capabilities, "vision")
}

// ownWindow matches the window that a model was made with.
var ownWindow = lazyregexp.New(`(?m)^num_ctx\s+(\d{1,9})\s*$`)

// contextWindow returns the window to use: the one that the model was made with, else the longest that it
// was trained for, up to MaxWindow. 0 means that neither is known.
func (d *details) contextWindow() int {
	if d == nil {
		return 0
	}
	if found := ownWindow().FindStringSubmatch(d.Parameters); found != nil {
		n, _ := strconv.Atoi(found[1]) // nine digits
		return n
	}
	for name, value := range d.Info {
		var n float64
		if strings.HasSuffix(name, ".context_length") && json.Unmarshal(value, &n) == nil && n > 0 {
			return int(min(n, MaxWindow))
		}
	}
	return 0
}

// Window returns the context window in tokens. It may ask the server, for showTimeout at most.
func (m *Model) Window() int {
	if m.window > 0 {
		return m.window
	}
	return m.windowOf(m.show(context.Background()))
}

func (m *Model) windowOf(known *details) int {
	if m.window > 0 {
		return m.window
	}
	return known.contextWindow()
}

// Abilities returns what Ollama says that the model can do, such as tools, vision and thinking; nil means
// that it is not known.
func (m *Model) Abilities(ctx context.Context) []string {
	if known := m.show(ctx); known != nil {
		return known.Capabilities
	}
	return nil
}

// show asks Ollama about the model, until it has answered once. nil means that it did not answer; then it
// is not asked again for showAgain.
func (m *Model) show(ctx context.Context) *details {
	m.asking.Lock()
	defer m.asking.Unlock()
	if m.shown != nil || !m.asked.IsZero() && time.Since(m.asked) < showAgain {
		return m.shown
	}
	m.asked = time.Now()
	ctx, stop := context.WithTimeout(ctx, showTimeout)
	defer stop()
	body, err := wire.Encode(map[string]string{"model": m.model})
	if err != nil {
		return nil
	}
	x, err := m.server.Ask(ctx, "show", body)
	if err != nil {
		return nil
	}
	defer x.Close()
	doc, err := io.ReadAll(io.LimitReader(x.Body, maxShow))
	var d details
	if err != nil || m.server.Decode(doc, &d) != nil {
		return nil
	}
	m.shown = &d
	return m.shown
}
