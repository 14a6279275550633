package scripted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"go.yaml.in/yaml/v3"

	"symbio/agent/llm"
)

// maxFile is the largest script that is read: a hundred times what a person writes.
const maxFile = 1 << 20

// Script is a script that was read and found whole. It does not change; any number of models may
// share it.
type Script struct {
	name  string
	turns []turn
	set   *template.Template // every template of the script, by its name
}

// Name is the script's name: its name key, or else what its file is called.
func (s *Script) Name() string { return s.name }

// Load reads a script from a file.
func Load(file string) (*Script, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("loading a script: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("loading script %s: %w", file, err)
	}
	base := filepath.Base(file)
	s, err := Parse(strings.TrimSuffix(base, filepath.Ext(base)), data)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", file, err)
	}
	return s, nil
}

// Parse reads a script. name is used when the script has none. An error names the line: unknown and
// repeated keys, templates and regular expressions that cannot be read, and turns that could not
// answer are errors.
func Parse(name string, data []byte) (*Script, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("script %s: larger than %d bytes", name, maxFile)
	}
	d, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	if d.Name == "" {
		d.Name = name
	}
	s, err := compile(d)
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", d.Name, err)
	}
	return s, nil
}

// document, turn, match, call, failure and usage are the file's shape. Their names appear in errors.
type document struct {
	Name   string            `yaml:"name"`
	Define map[string]source `yaml:"define"`
	Turns  []turn            `yaml:"turns"`
}

type turn struct {
	Name      string   `yaml:"name"`
	Match     match    `yaml:"match"`
	Text      source   `yaml:"text"`
	Calls     []call   `yaml:"calls"`
	Stop      llm.Stop `yaml:"stop"`
	Usage     *usage   `yaml:"usage"`
	Stall     duration `yaml:"stall"`
	Error     *failure `yaml:"error"`
	Cut       bool     `yaml:"cut"`
	Malformed bool     `yaml:"malformed"`

	line int
}

type call struct {
	For  source `yaml:"for"`
	Tool string `yaml:"tool"`
	Args args   `yaml:"args"`
	Raw  source `yaml:"raw"`
}

type failure struct {
	Status     int      `yaml:"status"`
	RetryAfter duration `yaml:"retry_after"`
	Message    string   `yaml:"message"`
}

type usage struct {
	Input  int `yaml:"input"`
	Output int `yaml:"output"`
}

// source is a string with the line it stands on: a template, or a regular expression.
type source struct {
	text string
	line int
	name string // of the compiled template
	same bool   // the template has no actions: it renders to text
}

func (s *source) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: want a string (a template that starts with {{ must stand in quotes)", n.Line)
	}
	s.text, s.line = n.Value, n.Line
	return nil
}

func (s source) present() bool { return s.line != 0 }

// duration is a time.Duration written as Go does: 250ms, 5s.
type duration time.Duration

func (d *duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := time.ParseDuration(n.Value)
	if err != nil || v < 0 {
		return fmt.Errorf("line %d: want a duration such as 250ms or 5s, got %q", n.Line, n.Value)
	}
	*d = duration(v)
	return nil
}

// unknownKey is how yaml says that a key is not known.
var unknownKey = regexp.MustCompile(`field (.*) not found in type scripted\.(\w+)`)

func decode(data []byte) (*document, error) {
	var d document
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil {
		return nil, explain(err)
	}
	if err := dec.Decode(new(yaml.Node)); err != io.EOF {
		return nil, errors.New("more than one document in the file")
	}
	var lines struct {
		Turns []yaml.Node `yaml:"turns"`
	}
	if err := yaml.Unmarshal(data, &lines); err != nil {
		return nil, explain(err)
	}
	for i := range d.Turns {
		d.Turns[i].line = lines.Turns[i].Line
	}
	return &d, nil
}

// explain says what yaml found in the words of the file's author.
func explain(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("the file is empty")
	}
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		return err
	}
	said := slices.Clone(te.Errors)
	for i := range said {
		said[i] = unknownKey.ReplaceAllString(said[i], "unknown key $1 in a $2")
	}
	return errors.New(strings.Join(said, "; "))
}

// compile checks a document and compiles what it holds.
func compile(d *document) (*Script, error) {
	if len(d.Turns) == 0 {
		return nil, errors.New("no turns")
	}
	c := newCompiler(d.Name)
	defined := slices.Sorted(maps.Keys(d.Define))
	for _, name := range defined {
		c.defined[name] = true
	}
	for _, name := range defined {
		src := d.Define[name]
		if err := c.template(&src, name); err != nil {
			return nil, fmt.Errorf("define: %w", err)
		}
	}
	names := map[string]bool{}
	for i := range d.Turns {
		t := &d.Turns[i]
		if t.Name == "" {
			t.Name = fmt.Sprint(i + 1)
		}
		if names[t.Name] {
			return nil, fmt.Errorf("line %d: two turns are called %s", t.line, t.Name)
		}
		names[t.Name] = true
		if err := t.compile(c); err != nil {
			return nil, fmt.Errorf("turn %s: %w", t.Name, err)
		}
	}
	return &Script{name: d.Name, turns: d.Turns, set: c.set}, nil
}

func (t *turn) compile(c *compiler) error {
	if err := t.check(); err != nil {
		return fmt.Errorf("line %d: %w", t.line, err)
	}
	if err := t.Match.compile(); err != nil {
		return err
	}
	if err := c.template(&t.Text, "turn "+t.Name+" text"); err != nil {
		return err
	}
	for i := range t.Calls {
		if err := t.Calls[i].compile(c, fmt.Sprintf("turn %s calls[%d]", t.Name, i)); err != nil {
			return err
		}
	}
	return nil
}

// check finds turns that contradict themselves or have nothing to say.
func (t *turn) check() error {
	faults := 0
	for _, f := range []bool{t.Error != nil, t.Cut, t.Malformed} {
		if f {
			faults++
		}
	}
	switch {
	case faults > 1:
		return errors.New("error, cut and malformed exclude each other")
	case faults == 0 && !t.Text.present() && len(t.Calls) == 0 && t.Stop == "":
		return errors.New("the turn has neither text nor calls nor a fault")
	case t.Error != nil && (t.Error.Status < 300 || t.Error.Status > 599):
		return fmt.Errorf("error needs the status of a failed HTTP request, got %d", t.Error.Status)
	case t.Usage != nil && (t.Usage.Input < 0 || t.Usage.Output < 0):
		return errors.New("usage cannot be negative")
	}
	switch t.Stop {
	case "", llm.StopEnd, llm.StopTools, llm.StopLength, llm.StopFilter:
		return nil
	}
	return fmt.Errorf("stop is one of end, tool_calls, length, filter; got %q", string(t.Stop))
}

func (k *call) compile(c *compiler, name string) error {
	switch {
	case k.Tool == "":
		return errors.New("a call needs a tool")
	case k.Args.present() && k.Raw.present():
		return fmt.Errorf("line %d: args and raw exclude each other", k.Raw.line)
	}
	if err := c.template(&k.For, name+".for"); err != nil {
		return err
	}
	if err := c.template(&k.Raw, name+".raw"); err != nil {
		return err
	}
	return k.Args.compile(c, name+".args")
}
