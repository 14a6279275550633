package openai_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/llm"
	"symbio/internal/agent/llm/openai"
	"symbio/internal/agent/llm/wire"
)

func TestAnswersThatBringNothingEnd(t *testing.T) {
	piece := `data: {"choices":[{"delta":{"content":"x"}}]}` + "\n\n"
	for name, ping := range map[string]string{"empty pieces": `data: {"choices":[{"delta":{}}]}` + "\n\n",
		"usage": `data: {"usage":{"prompt_tokens":1}}` + "\n\n"} {
		synctest.Test(t, func(t *testing.T) {
			steps := []any{piece}
			for range 2000 {
				steps = append(steps, 10*time.Second, ping)
			}
			m := served(t, slow(0, steps...), limits)
			begin := time.Now()
			got, err := llm.Collect(m.Stream(t.Context(), earlier), nil)
			if took := time.Since(begin); !errors.Is(err, llm.ErrTimeout) || !strings.Contains(err.Error(), "nothing of an answer") ||
				got.Message.Text != "x" || took < 10*time.Minute || took > 11*time.Minute {
				t.Errorf("%s: %q, %v after %v; want a timeout after ten minutes", name, got.Message.Text, err, took)
			}
		})
	}
}

func TestAnswersOfANodeAreBoundedTogether(t *testing.T) {
	const most = 4 << 20
	memory := wire.NewMemory(most)
	piece := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 10_000) + `"}}]}` + "\n\n"
	ask := func(body func() io.Reader) (llm.Response, error) {
		m := served(t, func(*http.Request) (*http.Response, error) { return reply(200, "", body()), nil },
			func(c *openai.Config) { c.Memory = memory })
		return llm.Collect(m.Stream(t.Context(), earlier), nil)
	}
	var all sync.WaitGroup
	var begun sync.WaitGroup
	begun.Add(16)
	for range 16 {
		all.Go(func() {
			got, err := ask(func() io.Reader {
				n := 0
				return repeated(func() string {
					if n++; n == 20 { // each has begun before any goes on
						begun.Done()
						begun.Wait()
					}
					return piece
				})
			})
			if !errors.Is(err, llm.ErrUnavailable) || len(got.Message.Text) > most {
				t.Errorf("%d bytes, %v; want fewer, and an error", len(got.Message.Text), err)
			}
		})
	}
	all.Wait()
	if got, err := ask(func() io.Reader {
		return io.MultiReader(strings.NewReader(strings.Repeat(piece, 300)), strings.NewReader(whole))
	}); err != nil || len(got.Message.Text) != 3_000_005 {
		t.Errorf("afterwards: %d bytes, %v", len(got.Message.Text), err)
	}
}
