package node

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"symbio/agent/tool"
)

func TestAnApprovalIsAnsweredOnceAndEndsWithItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a approvals
		events := NewEvents("a")
		tap := events.Subscribe(time.Time{})
		defer tap.Close()
		ask := func(ctx context.Context) (id string, answer chan bool) {
			answer = make(chan bool, 1)
			go func() { answer <- a.ask(ctx, events, "x", tool.Decision{Agent: "x", Tool: "Write"}) }()
			e, err := tap.Next(t.Context())
			var f struct{ ID string }
			if err != nil || e.Type != "approval" || json.Unmarshal(e.Data, &f) != nil {
				t.Fatalf("event = %+v, %v; want an approval", e, err)
			}
			return f.ID, answer
		}
		for _, want := range []bool{true, false} {
			id, answer := ask(t.Context())
			if !a.answer(id, want) || <-answer != want {
				t.Errorf("the answer %v did not arrive", want)
			}
			if a.answer(id, true) {
				t.Error("an approval was answered twice")
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		id, answer := ask(ctx)
		cancel()
		if <-answer {
			t.Error("the end of the task allowed the call")
		}
		if a.answer(id, true) {
			t.Error("an approval outlived its task")
		}
	})
}
