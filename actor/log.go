package actor

import (
	"context"
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// maxLinesPerSecond bounds what Proto.Actor logs: it can log a line per message, which no person
// could read.
const maxLinesPerSecond = 5

// engineLogger returns the logger that Proto.Actor gets: throttled, and with its Info as Debug, since
// this package logs what a person wants to know itself.
func engineLogger(l *slog.Logger) *slog.Logger {
	return slog.New(&engineLog{l.Handler(), rate.NewLimiter(maxLinesPerSecond, maxLinesPerSecond), new(atomic.Int64)}).With("lib", "proto.actor")
}

// engineLog is a slog.Handler that throttles, lowers Info to Debug, and counts the lines that it
// drops.
type engineLog struct {
	slog.Handler
	allowed *rate.Limiter
	missed  *atomic.Int64 // since the last line that was allowed
}

func (h *engineLog) Enabled(ctx context.Context, l slog.Level) bool {
	return h.Handler.Enabled(ctx, demote(l))
}

func (h *engineLog) Handle(ctx context.Context, rec slog.Record) error {
	if !h.allowed.Allow() {
		h.missed.Add(1)
		return nil
	}
	rec.Level = demote(rec.Level)
	if missed := h.missed.Swap(0); missed > 0 {
		rec = rec.Clone()
		rec.AddAttrs(slog.Int64("unlogged", missed))
	}
	return h.Handler.Handle(ctx, rec)
}

func (h *engineLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &engineLog{h.Handler.WithAttrs(attrs), h.allowed, h.missed}
}

func (h *engineLog) WithGroup(name string) slog.Handler {
	return &engineLog{h.Handler.WithGroup(name), h.allowed, h.missed}
}

// demote lowers Info to Debug. Warnings and errors keep their level.
func demote(l slog.Level) slog.Level {
	if l == slog.LevelInfo {
		return slog.LevelDebug
	}
	return l
}
