package exec

import (
	"bytes"
	"strconv"
	"strings"

	"symbio/community"
	"symbio/internal/security/lazyregexp"
)

// maxLine is the longest line that is reported, in bytes; the rest is dropped.
// The community accepts shorter ones, and cuts them.
const maxLine = 1 << 10

// lines calls emit with each line that is written to it, without its end. A
// carriage return ends a line, too: progress bars redraw their line with it. It
// is used by one goroutine, the copier of the command's output.
type lines struct {
	emit func(string)
	line []byte
}

// Write implements io.Writer. It never fails, because an error would stop the
// command.
func (l *lines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		text := rest
		end := bytes.IndexAny(rest, "\r\n")
		if end >= 0 {
			text = rest[:end]
		}
		l.line = append(l.line, text[:min(len(text), maxLine-len(l.line))]...)
		if end < 0 {
			break
		}
		l.end()
		rest = rest[end+1:]
	}
	return len(p), nil
}

// end emits the current line without control sequences, unless it is empty.
func (l *lines) end() {
	if text := strings.TrimSpace(escapes().ReplaceAllString(string(l.line), "")); text != "" {
		l.emit(text)
	}
	l.line = l.line[:0]
}

// escapes matches the control sequences that programs use for colours and
// cursors. The community removes other control characters.
var escapes = lazyregexp.New(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_])`)

// percent matches a number with a percent sign.
var percent = lazyregexp.New(`(?:^|\s)([0-9]{1,3}(?:\.[0-9]+)?)\s?%`)

// progressOf returns the progress that a line reports. A percentage in the line
// becomes Done and Total.
func progressOf(line string) community.Progress {
	p := community.Progress{Message: line}
	if m := percent().FindStringSubmatch(line); m != nil {
		if done, err := strconv.ParseFloat(m[1], 64); err == nil && done <= 100 {
			p.Done, p.Total = done, 100
		}
	}
	return p
}

// traceEnv hands a trace to a command, which may hand it on to a command of
// this program.
func traceEnv(t community.Trace) (env []string) {
	if t.Parent() == "" {
		return nil
	}
	return []string{"TRACEPARENT=" + t.Parent(), "TRACESTATE=" + t.State()}
}
