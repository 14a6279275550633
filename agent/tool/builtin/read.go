package builtin

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"symbio/agent/tool"
)

//go:embed read.md
var readText string

const (
	defaultLines = 2000
	// maxLine limits the bytes of a line that Read shows. Longer lines are data rather than text.
	maxLine = 2000
)

type readArgs struct {
	FilePath string `json:"file_path" jsonschema:"The file to read."`
	Offset   int    `json:"offset,omitempty" jsonschema:"The number of the first line to show, from 1."`
	Limit    int    `json:"limit,omitempty" jsonschema:"How many lines to show, at most 2000."`
}

func (w *Workspace) readTool() tool.Tool {
	return tool.New(tool.Spec{Name: "Read", Description: readText}, func(ctx context.Context, a readArgs) tool.Result {
		r, err := w.readSomewhere(ctx, a)
		if err != nil {
			return failed(err)
		}
		return r
	})
}

// readSomewhere reads a file of the workspace or of a directory that the agent may also read
// (tool.ReadDirs). It opens the file through that directory, so that no link leads out of it.
func (w *Workspace) readSomewhere(ctx context.Context, a readArgs) (tool.Result, error) {
	at := w.of(ctx, a.FilePath)
	if _, err := at.within(ctx, a.FilePath); err == nil || !filepath.IsAbs(a.FilePath) {
		return at.read(ctx, a)
	}
	for _, dir := range tool.ReadDirs(ctx) {
		if rel, err := filepath.Rel(dir, filepath.Clean(a.FilePath)); err != nil || !filepath.IsLocal(rel) {
			continue
		}
		beside, err := open(dir)
		if err != nil {
			return tool.Result{}, explain(a.FilePath, err)
		}
		defer func() { _ = beside.Close() }() // nothing was written
		return beside.read(ctx, a)
	}
	return at.read(ctx, a)
}

// read returns a part of a file, or a picture, and records the content as read by the agent.
func (w *Workspace) read(ctx context.Context, a readArgs) (tool.Result, error) {
	if a.Offset < 0 || a.Limit < 0 {
		return tool.Result{}, errors.New("offset and limit cannot be negative; lines are counted from 1")
	}
	name, err := w.within(ctx, a.FilePath)
	if err != nil {
		return tool.Result{}, err
	}
	// Looked at first, because opening some devices does something.
	if info, err := w.root.Stat(name); err != nil {
		return tool.Result{}, explain(a.FilePath, err)
	} else if !info.Mode().IsRegular() {
		return tool.Result{}, fmt.Errorf("%s is %w", quoted(a.FilePath), notRegular(info))
	}
	f, _, err := openRegular(w.root, name)
	if err != nil {
		return tool.Result{}, explain(a.FilePath, err)
	}
	defer f.Close()
	if err := w.followLink(ctx, f, name, a.FilePath); err != nil {
		return tool.Result{}, err
	}
	// The hash covers the whole file, not only the lines that are shown: an edit must fail if any
	// other part has changed.
	p := page{first: max(a.Offset, 1), limit: defaultLines}
	if a.Limit > 0 {
		p.limit = min(a.Limit, defaultLines)
	}
	sum := sha256.New()
	if err := p.fill(ctx, io.TeeReader(f, sum)); err != nil {
		var binary *binaryError
		if errors.As(err, &binary) {
			return w.look(ctx, name, a.FilePath, f, binary)
		}
		return tool.Result{}, explain(a.FilePath, err)
	}
	tool.Notes[readFiles](ctx).note(w.key(name), fingerprint(sum.Sum(nil)))
	text, err := p.show(a.FilePath)
	return tool.Result{Text: text}, err
}

// page is the part of a file that one call shows.
type page struct {
	first, limit int
	text         strings.Builder
	shown        int // lines in text
	lines        int // lines of the whole file
	form         form
}

// fill reads the whole file, because the page also says how many lines there are.
func (p *page) fill(ctx context.Context, from io.Reader) error {
	raw := bufio.NewReaderSize(from, 64<<10)
	head, _ := raw.Peek(sniffBytes) // what goes wrong comes again with the text
	if err := checkText(head); err != nil {
		return err
	}
	p.form = marked(head)
	r := bufio.NewReaderSize(decode(raw, head), 64<<10)
	full := false
	for {
		if p.lines%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line, rest, err := readLine(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p.lines++
		if p.form == formUTF8 && !isUTF8(line, rest > 0) {
			p.form = formOther
		}
		// When the text is full, reading goes on, to count the lines and to hash the rest.
		full = full || p.text.Len()+len(line) > maxText
		if p.lines >= p.first && p.shown < p.limit && !full {
			p.shown++
			fmt.Fprintf(&p.text, "%6d\t%s", p.lines, strings.ToValidUTF8(string(line), "\uFFFD"))
			if rest > 0 {
				fmt.Fprintf(&p.text, " [%d more bytes in this line]", rest)
			}
			p.text.WriteByte('\n')
		}
	}
}

// readLine returns a line without its end, cut to maxLine bytes. rest is the number of bytes that
// were cut off.
func readLine(r *bufio.Reader) (line []byte, rest int, err error) {
	read := 0
	for {
		part, err := r.ReadSlice('\n')
		read += len(part)
		if errors.Is(err, io.EOF) && read == 0 {
			return nil, 0, io.EOF
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		if err == nil {
			part = bytes.TrimSuffix(part[:len(part)-1], []byte("\r"))
			read--
		}
		keep := min(len(part), maxLine-len(line))
		line = append(line, part[:keep]...)
		rest += len(part) - keep
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, rest, nil
		}
	}
}

// show returns the text of the page with a note on the lines that are not shown.
func (p *page) show(path string) (string, error) {
	switch {
	case p.lines == 0:
		return "[The file is empty.]", nil
	case p.shown == 0:
		return "", fmt.Errorf("%s has %d lines; there is no line %d", quoted(path), p.lines, p.first)
	case p.first+p.shown-1 < p.lines:
		fmt.Fprintf(&p.text, "[Lines %d to %d of %d. To go on, read with offset %d.]", p.first, p.first+p.shown-1, p.lines, p.first+p.shown)
	}
	if p.form != formUTF8 {
		fmt.Fprintf(&p.text, "[The file is %v.]", p.form)
	}
	return p.text.String(), nil
}
