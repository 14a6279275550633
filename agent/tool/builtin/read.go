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
	"symbio/internal/security/visible"
)

//go:embed read.md
var readText string

const (
	// defaultLines is the number of lines that Read shows without a limit. It is also the largest
	// limit.
	defaultLines = 2000
	// maxLine limits the bytes of a line that Read shows. Longer lines are data rather than text.
	maxLine = 2000
)

// readArgs are the arguments of Read. Its JSON schema is what models see.
type readArgs struct {
	// FilePath is absolute or relative to the agent's working directory.
	FilePath string `json:"file_path" jsonschema:"The file to read."`
	// Offset is the number of the first line to show, counted from 1. 0 means 1.
	Offset int `json:"offset,omitempty" jsonschema:"The number of the first line to show, from 1."`
	// Limit is the number of lines to show. 0 means defaultLines; larger values are cut to it.
	Limit int `json:"limit,omitempty" jsonschema:"How many lines to show, at most 2000."`
}

// readTool returns Read. It may run in parallel with other calls, because it changes no file.
func (w *Workspace) readTool() tool.Tool {
	return tool.New(tool.Spec{Name: "Read", Description: readText, ReadOnly: true}, func(ctx context.Context, a readArgs) tool.Result {
		r, err := w.readSomewhere(ctx, a)
		if err != nil {
			return failed(err)
		}
		return r
	})
}

// readSomewhere reads a file of the workspace or of a directory that the agent may also read
// (tool.ReadDirs), such as a skill's. It opens the file through that directory, so that no
// link leads out of it. Relative paths always mean the workspace.
func (w *Workspace) readSomewhere(ctx context.Context, a readArgs) (tool.Result, error) {
	at := w.of(ctx, a.FilePath)
	if f, ok, err := tool.OpenArtifact(ctx, a.FilePath); ok {
		if err != nil {
			return tool.Result{}, err
		}
		defer f.Close()
		return at.show(ctx, a, f, "")
	}
	if _, err := at.within(ctx, a.FilePath); err == nil || !filepath.IsAbs(a.FilePath) {
		return at.read(ctx, a)
	}
	// The match is by text only. The open through os.Root below decides what the path really leads
	// to.
	for _, dir := range tool.ReadDirs(ctx) {
		if rel, err := filepath.Rel(dir, filepath.Clean(a.FilePath)); err != nil || !filepath.IsLocal(rel) {
			continue
		}
		beside, err := open(dir)
		if err != nil {
			return tool.Result{}, explain(a.FilePath, err)
		}
		// Close cannot lose anything, because nothing was written.
		defer func() { _ = beside.root.Close() }()
		return beside.read(ctx, a)
	}
	// No directory has it. read returns the usual error, which names the directories of the
	// workspace.
	return at.read(ctx, a)
}

// read returns a part of a file, or a picture, and records the content as read by the agent. It
// reads the whole file, however little of it is shown: the record is a hash of everything, and
// later edits are compared with it. A file that is not text is handed to look.
func (w *workdir) read(ctx context.Context, a readArgs) (tool.Result, error) {
	name, err := w.within(ctx, a.FilePath)
	if err != nil {
		return tool.Result{}, err
	}
	// Stat comes before the open, because opening some devices has effects. OpenRegular checks
	// again, for the case that the file is replaced in between.
	if info, err := w.root.Stat(name); err != nil {
		return tool.Result{}, explain(a.FilePath, err)
	} else if !info.Mode().IsRegular() {
		return tool.Result{}, fmt.Errorf("%s is %w", quoted(a.FilePath), notRegular(info))
	}
	f, _, err := OpenRegular(w.root, name)
	if err != nil {
		return tool.Result{}, explain(a.FilePath, err)
	}
	defer f.Close()
	// The guard judged the path as it was written. f is open now, so its real path cannot change
	// any more.
	if err := w.followLink(ctx, f, name, a.FilePath); err != nil {
		return tool.Result{}, err
	}
	return w.show(ctx, a, f, name)
}

// show returns a part of an open file, or a picture. name is the file in the workspace, whose content it
// records; "" = it is an artifact, whose long lines it shows in pieces: there is no other way to read them.
func (w *workdir) show(ctx context.Context, a readArgs, f io.ReadSeeker, name string) (tool.Result, error) {
	if a.Offset < 0 || a.Limit < 0 {
		return tool.Result{}, errors.New("offset and limit cannot be negative; lines are counted from 1")
	}
	// The hash covers the whole file, not only the lines that are shown: an edit must fail if any
	// other part has changed.
	p := page{first: max(a.Offset, 1), limit: defaultLines, pieces: name == ""}
	if a.Limit > 0 {
		p.limit = min(a.Limit, defaultLines)
	}
	// The hash is computed from the same bytes that fill shows, not from a second read, so that a
	// change between two reads cannot be missed.
	sum := sha256.New()
	if err := p.fill(ctx, io.TeeReader(f, sum)); err != nil {
		var binary *binaryError
		if errors.As(err, &binary) {
			return w.look(ctx, name, a.FilePath, f, binary)
		}
		return tool.Result{}, explain(a.FilePath, err)
	}
	if name != "" {
		noteFile(ctx, w.key(name), fingerprint(sum.Sum(nil)))
	}
	text, err := p.show(a.FilePath)
	return tool.Result{Text: text}, err
}

// page is the part of a file that one call shows.
type page struct {
	// first is the number of the first line of the page, from 1; limit is the maximum number of its
	// lines.
	first, limit int
	// pieces shows a line of more than maxLine bytes as several.
	pieces bool
	// text is the page, each line with its number in front.
	text strings.Builder
	// shown is the number of lines in text.
	shown int
	// lines is the number of lines of the whole file.
	lines int
	// form is the encoding of the file. show mentions it unless it is UTF-8.
	form form
}

// fill reads the whole file and keeps the lines of the page. It returns a binaryError for a file
// that is not text and the cause of ctx if ctx ends. It reads on after the page is full, because
// show also says how many lines there are and read needs the hash of everything.
func (p *page) fill(ctx context.Context, from io.Reader) error {
	raw := bufio.NewReaderSize(from, 64<<10)
	// An error of Peek is ignored: a short file is no error, and a real one is returned by readLine
	// again.
	head, _ := raw.Peek(sniffBytes)
	if err := checkText(head); err != nil {
		return err
	}
	p.form = marked(head)
	r := bufio.NewReaderSize(decode(raw, head), 64<<10)
	full := false
	for {
		// A check at every line would slow down large files.
		if p.lines%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line, rest, err := p.next(r)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		p.lines++
		// One line that is not valid is enough to call the file not UTF-8.
		if p.form == formUTF8 && !isUTF8(line, rest > 0) {
			p.form = formOther
		}
		// When the text is full, reading goes on, to count the lines and to hash the rest.
		// full stays true, so that a short line after a long one that did not fit is not shown: the
		// page has no gaps.
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

// next returns the next line of the page, or piece of one.
func (p *page) next(r *bufio.Reader) (line []byte, rest int, err error) {
	if !p.pieces {
		return readLine(r)
	}
	head, _ := r.Peek(maxLine + 1)
	if len(head) <= maxLine || bytes.IndexByte(head, '\n') >= 0 {
		return readLine(r)
	}
	line = visible.Prefix(head, maxLine)
	_, err = r.Discard(len(line))
	return line, 0, err
}

// readLine returns a line without its end (LF or CR LF), cut to maxLine bytes. rest is the number
// of bytes that were cut off. The last line of a file may lack its end. At the end of the file it
// returns io.EOF and no line.
func readLine(r *bufio.Reader) (line []byte, rest int, err error) {
	read := 0
	for {
		// ReadSlice returns the line in pieces of the buffer's size, so that a line of any length
		// needs no more memory than maxLine.
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

// show returns the text of the page with a note on the lines that are not shown and on the
// encoding. It returns an error if the file has fewer lines than the page's first. Call it once.
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
