package scripted

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"symbio/agent/llm"
	"symbio/internal/security/lazyregexp"
)

// maxFile limits the size of a script in bytes, far above what a person writes.
const maxFile = 4 << 20

// document, turn, match, call, failure and usage are the file's shape. Their names appear in errors.
type document struct {
	Name  string `yaml:"name"`
	Turns []turn `yaml:"turns"`
}

type turn struct {
	Name  string        `yaml:"name"`
	Match match         `yaml:"match"`
	Text  string        `yaml:"text"`
	Calls []call        `yaml:"calls"`
	Stop  llm.Stop      `yaml:"stop"`
	Usage *usage        `yaml:"usage"`
	Stall time.Duration `yaml:"stall"`
	Error *failure      `yaml:"error"`
}

// match is the conditions of a turn. An absent condition is true.
type match struct {
	System *regexp.Regexp `yaml:"system"`
	User   *regexp.Regexp `yaml:"user"`
	Turn   *int           `yaml:"turn"`
	After  *[]string      `yaml:"after"`
	Result *regexp.Regexp `yaml:"result"`
}

type call struct {
	Tool string         `yaml:"tool"`
	Args map[string]any `yaml:"args"`
}

type failure struct {
	Status     int           `yaml:"status"`
	RetryAfter time.Duration `yaml:"retry_after"`
	Message    string        `yaml:"message"`
}

type usage struct {
	Input  int `yaml:"input"`
	Output int `yaml:"output"`
}

// Load reads a script from a file.
func Load(file string) (*Model, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("loading a script: %w; write scripted:FILE with the path of a script that is there", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("loading script %s: %w", file, err)
	}
	base := filepath.Base(file)
	m, err := Parse(strings.TrimSuffix(base, filepath.Ext(base)), data)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", file, err)
	}
	return m, nil
}

// Parse reads a script. name is used when the script has none. Unknown and repeated keys, regular
// expressions that do not compile, unknown placeholders, and turns that could not answer are
// errors. They name the line or the turn.
func Parse(name string, data []byte) (*Model, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("script %s: larger than %d bytes", name, maxFile)
	}
	d, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	d.Name = cmp.Or(d.Name, name)
	for i := range d.Turns {
		t := &d.Turns[i]
		t.Name = cmp.Or(t.Name, fmt.Sprint(i+1))
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("script %s: turn %s: %w", d.Name, t.Name, err)
		}
	}
	return &Model{name: "scripted:" + d.Name, turns: d.Turns}, nil
}

// unknownKey is how the YAML library reports an unknown key.
var unknownKey = lazyregexp.New(`field (\S+) not found in type scripted\.(\w+)`)

func decode(data []byte) (*document, error) {
	var d document
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(&d)
	var te *yaml.TypeError
	switch {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty")
	case errors.As(err, &te):
		return nil, errors.New(unknownKey().ReplaceAllString(strings.Join(te.Errors, "; "), "unknown key $1 in a $2"))
	case err != nil:
		return nil, err
	case len(d.Turns) == 0:
		return nil, errors.New("no turns")
	case dec.Decode(new(yaml.Node)) != io.EOF:
		return nil, errors.New("more than one document in the file")
	}
	return &d, nil
}

// check finds turns that have nothing to say, and values that no answer can have.
func (t *turn) check() error {
	switch {
	case t.Error == nil && t.Text == "" && len(t.Calls) == 0 && t.Stop == "" && t.Stall == 0:
		return errors.New("it has neither text nor calls nor an error")
	case t.Error != nil && (t.Error.Status < 300 || t.Error.Status > 599):
		return fmt.Errorf("error needs the status of a failed HTTP request, got %d", t.Error.Status)
	case t.Usage != nil && (t.Usage.Input < 0 || t.Usage.Output < 0):
		return errors.New("usage cannot be negative")
	}
	switch t.Stop {
	case "", llm.StopEnd, llm.StopTools, llm.StopLength, llm.StopFilter:
	default:
		return fmt.Errorf("stop is one of end, tool_calls, length, filter; got %q", string(t.Stop))
	}
	known, err := t.Match.names()
	if err != nil {
		return err
	}
	if err := checkPlaceholders(t.Text, known); err != nil {
		return fmt.Errorf("text: %w", err)
	}
	for _, c := range t.Calls {
		if c.Tool == "" {
			return errors.New("a call needs a tool")
		}
		args, err := json.Marshal(c.Args)
		if err != nil {
			return fmt.Errorf("the args of %s cannot be JSON: %w", c.Tool, err)
		}
		if err := checkPlaceholders(string(args), known); err != nil {
			return fmt.Errorf("the args of %s: %w", c.Tool, err)
		}
	}
	return nil
}

// names returns the placeholders that a turn with this match may use. Two groups must not have the
// same name.
func (m *match) names() (map[string]bool, error) {
	known := map[string]bool{"user": true, "system": true, "turn": true, "result": true}
	for _, re := range []*regexp.Regexp{m.System, m.User, m.Result} {
		if re == nil {
			continue
		}
		for _, name := range re.SubexpNames() {
			if name != "" && known[name] {
				return nil, fmt.Errorf("match: the name of the group %s is taken", name)
			}
			known[name] = true
		}
	}
	return known, nil
}
