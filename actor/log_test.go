package actor_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"symbio/actor"
)

func TestProtoActorsLinesAreForDevelopers(t *testing.T) {
	for _, test := range []struct {
		level slog.Level
		want  bool
	}{{slog.LevelInfo, false}, {slog.LevelDebug, true}} {
		var log bytes.Buffer
		cfg := actor.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: test.level}))}
		inBubble(t, cfg, func(t *testing.T, s *actor.System) {})
		if got := strings.Contains(log.String(), "lib=proto.actor"); got != test.want {
			t.Errorf("at %v: Proto.Actor heard is %v, want %v:\n%s", test.level, got, test.want, &log)
		}
	}
}

func TestActorThatFailsWithoutAnOwnerIsLogged(t *testing.T) {
	var log bytes.Buffer
	cfg := actor.Config{Restarts: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	inBubble(t, cfg, func(t *testing.T, s *actor.System) {
		r := spawn(t, s, actor.Props{Name: "ann", New: newFragile})
		if _, err := r.Ask(t.Context(), "panic"); !errors.Is(err, actor.ErrPanicked) {
			t.Fatal(err)
		}
		synctest.Wait() // until it is given up, before Shutdown asks it to stop
	})
	if !strings.Contains(log.String(), `msg="actor stopped" actor=ann err="actor failed too often`) {
		t.Errorf("the log does not tell:\n%s", &log)
	}
}
