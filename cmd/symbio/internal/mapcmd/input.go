package mapcmd

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/lazyregexp"
)

// maxItem is the largest line and the largest file of the input, in bytes: the largest message that a node can be
// configured to take.
const maxItem = 4 << 20

// item is an element of the input: a line, or the file that a line names.
type item struct {
	index int
	// line is without white space around it. json stands for it in the output: the same if it is JSON, else a JSON string.
	line, json []byte
	// hash tells whether the item, and what is done with it, is the same in another run. Of a file it has the size and
	// the time of the last change, so that files which are done need not be read again.
	hash string
}

// input is where items come from.
type input struct {
	lines *bufio.Scanner
	// files reports that each line is the path of a file.
	files bool
	// read is the number of items that were read, total the number of all; 0 = not known before the end.
	read, total int
	// arguments is what the results depend on beside the items.
	arguments string
}

// openInput opens the input that the flags name.
func openInput(env *command.Env, o options) (*input, error) {
	in := &input{files: len(o.over) > 0, arguments: fmt.Sprintf("%q", []string{o.agent, o.capability, o.template()})}
	var paths bytes.Buffer
	for _, pattern := range o.over {
		found, err := doublestar.FilepathGlob(pattern, doublestar.WithFilesOnly())
		if err != nil {
			return nil, command.Usage(fmt.Errorf("--over %s: %w", pattern, err))
		}
		if len(found) == 0 {
			return nil, command.NotFound(fmt.Errorf("--over %s: no file matches; ** matches any number of directories", pattern))
		}
		for _, path := range found {
			fmt.Fprintln(&paths, path)
		}
	}
	var from io.ReadSeeker = bytes.NewReader(paths.Bytes())
	if o.lines == "-" {
		in.from(env.In)
		return in, nil
	}
	if !in.files {
		f, err := os.Open(o.lines) // it stays open as long as the process lives
		if err != nil {
			return nil, err
		}
		from = f
	}
	for in.from(from); in.next() != nil; in.total++ {
	}
	_, err := from.Seek(0, io.SeekStart)
	err = errors.Join(in.err(), err)
	in.from(from)
	return in, err
}

// from makes r what the next item is read from.
func (in *input) from(r io.Reader) {
	in.lines, in.read = bufio.NewScanner(r), 0
	in.lines.Buffer(nil, maxItem)
}

// next returns the next item, which is a line that is not blank; nil at the end, and after an error.
func (in *input) next() *item {
	for in.lines.Scan() {
		line := bytes.TrimSpace(in.lines.Bytes())
		if len(line) == 0 {
			continue
		}
		it := &item{index: in.read, line: bytes.Clone(line)}
		in.read++
		key := append([]byte(in.arguments), line...)
		if in.files {
			if info, err := os.Stat(string(line)); err == nil { // a file that is gone fails when it is read
				key = fmt.Append(key, info.Size(), info.ModTime().UnixNano())
			}
		}
		if it.json = it.line; in.files || !json.Valid(line) {
			it.json, _ = json.Marshal(string(line)) // text has no error
		}
		sum := sha256.Sum256(key)
		it.hash = hex.EncodeToString(sum[:16])
		return it
	}
	return nil
}

// err returns why there is no next item; nil at the end.
func (in *input) err() error {
	err := in.lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("item %d of the input is longer than %d MiB", in.read, maxItem>>20)
	}
	return err
}

// placeholder is a field in a template, such as {path}. Other braces, such as the braces of JSON, stay as they are.
var placeholder = lazyregexp.New(`\{[A-Za-z_][A-Za-z0-9_]*\}`)

// expand fills a template with the fields of an item. In a template that is JSON, text is written as it is between quotes.
func (in *input) expand(template string, isJSON bool, it *item) (string, error) {
	var problems []error
	text := placeholder().ReplaceAllStringFunc(template, func(m string) string {
		value, err := in.field(it, m[1:len(m)-1])
		problems = append(problems, err)
		var text string
		if template == m && isJSON || json.Unmarshal(value, &text) != nil {
			return string(value)
		}
		if isJSON {
			return string(value[1 : len(value)-1])
		}
		return text
	})
	if isJSON && !json.Valid([]byte(text)) {
		problems = append(problems, errors.New("--input does not become JSON with this item"))
	}
	return text, errors.Join(problems...)
}

// field returns a field of an item as JSON: path or text of a file; of a line item, which is all of it, or a field of its
// object.
func (in *input) field(it *item, name string) (json.RawMessage, error) {
	if in.files && name == "text" {
		return readText(string(it.line))
	}
	if in.files && name == "path" || !in.files && name == "item" {
		return it.json, nil
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(it.json, &object) // another value has no fields
	if value, ok := object[name]; ok {
		return value, nil
	}
	return nil, fmt.Errorf("the item has no field %q: a file has {path} and {text}, a line {item} and, if it is a JSON object, its fields", name)
}

// readText reads a file of text of at most maxItem bytes, as a JSON string.
func readText(path string) (json.RawMessage, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path) // a pipe would block
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxItem+1))
	if err == nil && len(data) > maxItem {
		err = fmt.Errorf("%s is larger than %d MiB", path, maxItem>>20)
	}
	if err == nil && !utf8.Valid(data) {
		err = fmt.Errorf("%s is not text: make text of it first, or give {path} alone if all nodes that may work have the file", path)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(string(data))
}
