package exec

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"

	"symbio/community"
)

// maxLine is how many bytes of a line on standard error are emitted; community takes fewer.
const maxLine = 1 << 10

// lines emits each line that is written to it, without its end. A carriage return ends a line too, as in
// bars that are drawn over themselves. What a line has over maxLine is dropped.
type lines struct {
	emit func(string)
	line []byte
}

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

// end emits what is left of a line.
func (l *lines) end() {
	if text := strings.TrimSpace(escapes.ReplaceAllString(string(l.line), "")); text != "" {
		l.emit(text)
	}
	l.line = l.line[:0]
}

// escapes are what commands colour their words with. What is left of others is community's to clean.
var escapes = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\^_])`)

var percent = regexp.MustCompile(`(?:^|\s)([0-9]{1,3}(?:\.[0-9]+)?)\s?%`)

// progressOf is a line as progress; "50%" in it says how far it is.
func progressOf(line string) community.Progress {
	p := community.Progress{Message: line}
	if m := percent.FindStringSubmatch(line); m != nil {
		if done, err := strconv.ParseFloat(m[1], 64); err == nil && done <= 100 {
			p.Done, p.Total = done, 100
		}
	}
	return p
}

// traceEnv hands a trace to a command, which may hand it on to a command of this program.
func traceEnv(t community.Trace) (env []string) {
	if t.Parent() == "" {
		return nil
	}
	return []string{"TRACEPARENT=" + t.Parent(), "TRACESTATE=" + t.State()}
}
