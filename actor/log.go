package actor

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// throttle lets through what a person could read: a few a second.
type throttle struct {
	mu     sync.Mutex
	since  time.Time // start of the current second; guarded by mu
	passed int       // in it; guarded by mu
	missed int       // since the last one that passed; guarded by mu
}

const perSecond = 5

// allow reports whether to log now, and how many were not logged since the last time.
func (t *throttle) allow() (ok bool, missed int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.since) >= time.Second {
		t.since, t.passed = now, 0
	}
	if t.passed >= perSecond {
		t.missed++
		return false, 0
	}
	t.passed++
	missed, t.missed = t.missed, 0
	return true, missed
}

// engineLogger returns the logger that Proto.Actor gets: throttled, and with its Info as Debug, since
// what a person wants to know this package says itself.
func engineLogger(l *slog.Logger) *slog.Logger {
	return slog.New(&engineLog{Handler: l.Handler(), throttle: &throttle{}}).With("lib", "proto.actor")
}

type engineLog struct {
	slog.Handler
	throttle *throttle
}

func (h *engineLog) Enabled(ctx context.Context, l slog.Level) bool {
	return h.Handler.Enabled(ctx, demote(l))
}

func (h *engineLog) Handle(ctx context.Context, rec slog.Record) error {
	ok, missed := h.throttle.allow()
	if !ok {
		return nil
	}
	rec.Level = demote(rec.Level)
	if missed > 0 {
		rec = rec.Clone()
		rec.AddAttrs(slog.Int("unlogged", missed))
	}
	return h.Handler.Handle(ctx, rec)
}

func (h *engineLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &engineLog{h.Handler.WithAttrs(attrs), h.throttle}
}

func (h *engineLog) WithGroup(name string) slog.Handler {
	return &engineLog{h.Handler.WithGroup(name), h.throttle}
}

func demote(l slog.Level) slog.Level {
	if l == slog.LevelInfo {
		return slog.LevelDebug
	}
	return l
}
