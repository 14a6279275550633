package agent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/agent"
	"symbio/agent/definition"
	"symbio/agent/llm"
	"symbio/agent/tool"
)

func TestPicturesOfToolsReachOnlyTheirModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var file bytes.Buffer
		if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
			t.Fatal(err)
		}
		look := tool.New(tool.Spec{Name: "Look"}, func(context.Context, struct{}) tool.Result {
			return tool.Result{Text: "a picture", Images: []llm.Image{{Data: file.Bytes()}}}
		})
		const turns = 25 // more than a request may have pictures
		shown, told := 0, 0
		h := newHouse(t, script(func(_ context.Context, r llm.Request) (llm.Message, error) {
			shown, told = 0, 0
			for _, m := range r.Messages {
				for _, res := range m.Results {
					shown += len(res.Images)
					told += strings.Count(res.Text, "not shown any more")
				}
			}
			if err := r.Check(); err != nil {
				t.Error(err)
			}
			if n := shown + told; n < turns {
				if n > 0 && len(last(r).Results[0].Images) != 1 {
					t.Errorf("turn %d: the newest picture is not shown", n)
				}
				return call(use("c"+strings.Repeat("x", n), "Look", map[string]any{}))
			}
			return say("seen")
		}), look)
		def := definition.General()
		def.MaxTurns = 2 * turns
		m := h.spawn(agent.Order{Definition: def, Policy: allowed(t, "Look")})
		if reply, err := h.task(m, "look"); err != nil || reply != "seen" {
			t.Fatalf("got %q, %v", reply, err)
		}
		if shown+told != turns || shown > llm.MaxImages || shown < llm.MaxImages/2 {
			t.Errorf("at the end %d pictures are shown and %d told of", shown, told)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		events, err := json.Marshal(h.events)
		if err != nil {
			t.Fatal(err)
		}
		if data := base64.StdEncoding.EncodeToString(file.Bytes()); strings.Contains(string(events), data[:20]) || !strings.Contains(string(events), "a picture") {
			t.Errorf("the events have the bytes of a picture, or nothing of it: %.2000s", events)
		}
	})
}
