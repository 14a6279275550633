// Package nodelog makes the Logger of a node: text or JSON, without secrets, to
// a stream and to a file that is rotated.
package nodelog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"gopkg.in/natefinch/lumberjack.v2"

	"symbio/internal/security/redact"
)

// maxSize is the size in MiB at which the file is rotated. It holds weeks of warnings, and an editor opens it.
const maxSize = 10

// Options says what is logged, how and where.
type Options struct {
	Level slog.Level
	// Format is text or json.
	Format string
	// Stream gets the lines; nil = none does. Journal: it is systemd's, which
	// reads a priority in front of each line.
	Stream  io.Writer
	Journal bool
	// File gets them, too, and is rotated when it has maxSize megabytes; "" =
	// none.
	File string
}

// ErrFormat says that there is no such format.
var ErrFormat = errors.New("write text or json")

// Open returns a Logger. The caller closes the file.
func Open(o Options) (*slog.Logger, io.Closer, error) {
	options := &slog.HandlerOptions{Level: o.Level, ReplaceAttr: withoutSecrets}
	handler := func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, options) }
	switch o.Format {
	case "text":
	case "json":
		handler = func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, options) }
	default:
		return nil, nil, fmt.Errorf("--log-format %q: %w", o.Format, ErrFormat)
	}
	var all []slog.Handler
	switch {
	case o.Stream != nil && o.Journal:
		all = append(all, handler(journal{o.Stream}))
	case o.Stream != nil:
		all = append(all, handler(o.Stream))
	}
	file := &lumberjack.Logger{Filename: o.File, MaxSize: maxSize, MaxBackups: 3}
	if o.File != "" {
		if _, err := file.Write(nil); err != nil { // it would be opened with the first line only
			return nil, nil, fmt.Errorf("log.file: %w", errors.Join(err, file.Close()))
		}
		all = append(all, handler(file))
	}
	return slog.New(slog.NewMultiHandler(all...)), file, nil
}

// withoutSecrets takes secrets out of the quotes in a log line.
func withoutSecrets(_ []string, a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(redact.Text(v))
	case error:
		a.Value = slog.StringValue(redact.Text(v.Error()))
	}
	return a
}

// Redact returns a handler that hands lines of at least that level on to h, without the secrets that they
// quote, as UTF-8.
func Redact(h slog.Handler, least slog.Level) slog.Handler { return redactor{h, least} }

// redactor is a handler without secrets.
type redactor struct {
	slog.Handler
	least slog.Level
}

func (r redactor) Enabled(_ context.Context, l slog.Level) bool { return l >= r.least }

func (r redactor) Handle(ctx context.Context, line slog.Record) error {
	out := slog.NewRecord(line.Time, line.Level, redact.Text(line.Message), line.PC)
	line.Attrs(func(a slog.Attr) bool { out.AddAttrs(cleanAttr(a)); return true })
	return r.Handler.Handle(ctx, out)
}

func (r redactor) WithAttrs(attrs []slog.Attr) slog.Handler {
	cleaned := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		cleaned[i] = cleanAttr(a)
	}
	return redactor{r.Handler.WithAttrs(cleaned), r.least}
}

func (r redactor) WithGroup(name string) slog.Handler {
	return redactor{r.Handler.WithGroup(name), r.least}
}

// cleanAttr takes secrets and what is not UTF-8 out of an attribute, and of those in it.
func cleanAttr(a slog.Attr) slog.Attr {
	if a.Value = a.Value.Resolve(); a.Value.Kind() == slog.KindGroup {
		inner := slices.Clone(a.Value.Group())
		for i, of := range inner {
			inner[i] = cleanAttr(of)
		}
		a.Value = slog.GroupValue(inner...)
	}
	if a = withoutSecrets(nil, a); a.Value.Kind() == slog.KindString {
		a.Value = slog.StringValue(strings.ToValidUTF8(a.Value.String(), "?"))
	}
	return a
}

// journal puts the priority in front of each line, as systemd reads it
// (sd-daemon(3)).
type journal struct{ io.Writer }

func (j journal) Write(line []byte) (int, error) {
	_, level, _ := strings.Cut(string(line), "level") // after the time, before anything else
	priority := 6
	for i, name := range []string{"ERROR", "WARN"} {
		if strings.HasPrefix(strings.TrimLeft(level, `=":`), name) {
			priority = 3 + i
		}
	}
	_, err := fmt.Fprintf(j.Writer, "<%d>%s", priority, line)
	return len(line), err
}
