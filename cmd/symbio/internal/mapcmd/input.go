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
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"symbio/cmd/symbio/internal/command"
)

// maxItem is the largest line and the largest file of the input, in bytes: the largest message that a node can be
// configured to take.
const maxItem = 4 << 20

// item is an element of the input: a line, or the file that a line names.
type item struct {
	index int
	// text is the line, json what stands for it in the output: the same if it is JSON, else a JSON string.
	text string
	json json.RawMessage
	// hash tells whether the item, and what is done with it, is the same in another run. Of a file it has the size and
	// the time of the last change, so that files which are done need not be read again.
	hash string
}

// input is where items come from.
type input struct {
	from io.Reader
	// files reports that each line is the path of a file.
	files bool
	// total is the number of items; 0 = not known before the end.
	total int
	// arguments is what the results depend on beside the items.
	arguments string
}

// openInput opens the input that the flags name.
func openInput(env *command.Env, o options) (*input, error) {
	in := &input{files: len(o.over) > 0, arguments: fmt.Sprintf("%q", []string{o.agent, o.capability, o.template()})}
	var all []byte
	for _, pattern := range o.over {
		found, err := doublestar.FilepathGlob(pattern, doublestar.WithFilesOnly())
		if err != nil {
			return nil, command.Usage(fmt.Errorf("--over %s: %w", pattern, err))
		}
		if len(found) == 0 {
			return nil, command.NotFound(fmt.Errorf("--over %s: no file matches; ** matches any number of directories", pattern))
		}
		in.total += len(found)
		all = append(all, strings.Join(found, "\n")+"\n"...)
	}
	if in.from = bytes.NewReader(all); in.files {
		return in, nil
	}
	if in.from = env.In; o.lines == "-" {
		return in, nil
	}
	f, err := os.Open(o.lines) // it is open as long as the process lives
	if err != nil {
		return nil, err
	}
	in.from = f
	for _, err := range in.items() {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.lines, err)
		}
		in.total++
	}
	_, err = f.Seek(0, io.SeekStart)
	return in, err
}

// items returns the items in order, one for each line that is not blank. It can be used once. An error is the last element.
func (in *input) items() iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		scan := bufio.NewScanner(in.from)
		scan.Buffer(nil, maxItem)
		for n := 0; scan.Scan(); {
			line := bytes.TrimSpace(scan.Bytes())
			if len(line) == 0 {
				continue
			}
			if !yield(in.item(n, line), nil) {
				return
			}
			n++
		}
		err := scan.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = fmt.Errorf("a line is longer than %d MiB", maxItem>>20)
		}
		if err != nil {
			yield(item{}, err)
		}
	}
}

// item returns the item of a line.
func (in *input) item(index int, line []byte) item {
	it := item{index: index, text: string(line), json: slices.Clone(line)}
	key := in.arguments + it.text
	if in.files {
		if info, err := os.Stat(it.text); err == nil { // a file that is gone fails when it is read
			key += fmt.Sprint(info.Size(), info.ModTime().UnixNano())
		}
	}
	if in.files || !json.Valid(line) {
		it.json, _ = json.Marshal(it.text) // text has no error
	}
	sum := sha256.Sum256([]byte(key))
	it.hash = hex.EncodeToString(sum[:16])
	return it
}

// placeholder is a field in a template, such as {path}. Other braces, such as those of JSON, stay as they are.
var placeholder = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_]*\}`)

// expand fills a template with the fields of an item. In a template that is JSON, text is written as it is between quotes.
func (in *input) expand(template string, isJSON bool, it item) (string, error) {
	var problems []error
	text := placeholder.ReplaceAllStringFunc(template, func(m string) string {
		value, err := in.field(it, m[1:len(m)-1])
		problems = append(problems, err)
		var text string
		switch {
		case template == m && isJSON || json.Unmarshal(value, &text) != nil:
			return string(value)
		case isJSON:
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
func (in *input) field(it item, name string) (json.RawMessage, error) {
	if in.files && name == "text" {
		return readText(it.text)
	}
	var object map[string]json.RawMessage
	_ = json.Unmarshal(it.json, &object) // another value has no fields
	switch value, ok := object[name]; {
	case ok:
		return value, nil
	case in.files && name == "path", !in.files && name == "item":
		return it.json, nil
	}
	return nil, fmt.Errorf("the item has no field %q: a file has {path} and {text}, a line {item} and, if it is a JSON object, its fields", name)
}

// readText reads a file of text of at most maxItem bytes, as a JSON string.
func readText(path string) (json.RawMessage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxItem+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxItem:
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxItem>>20)
	case !utf8.Valid(data):
		return nil, fmt.Errorf("%s is not text: make text of it first, or give {path} alone if all nodes that may work have the file", path)
	}
	return json.Marshal(string(data))
}
