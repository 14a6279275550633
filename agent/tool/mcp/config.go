package mcp

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The transports that an entry may name.
const (
	Stdio = "stdio"
	// HTTP is streamable HTTP, which replaced SSE.
	HTTP = "http"
	// SSE is HTTP with server-sent events, the transport of the protocol of 2024-11-05.
	SSE = "sse"
)

const (
	// maxFile limits a file, in bytes. Hundreds of servers fit into it.
	maxFile = 1 << 20
	// maxServers limits the servers of a file.
	maxServers = 100
)

// Server is an entry of a .mcp.json.
type Server struct {
	// Name is the key under mcpServers: 1 to 200 bytes. ServerPart turns it into a part of tool
	// names.
	Name string `json:"name"`
	// Type is Stdio, HTTP or SSE. Read sets it when the entry has only a command or a url.
	Type string `json:"type"`
	// Command, Args, Env and Dir describe the program of a Stdio server. The program gets Env in
	// addition to the few variables that every sandboxed command gets; it does not inherit the
	// node's environment. Env and Headers are not printed, because they often hold keys.
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"-"`
	// Argv is what runs in the place of Command and Args: a program of the package that a person
	// installed for them, and its arguments. nil means that there is none.
	Argv []string `json:"-"`
	// Dir is the program's working directory; "" means the one of Config.Box.
	Dir string `json:"cwd,omitempty"`
	// URL and Headers describe an HTTP or SSE server. Headers are sent to the host of URL only.
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"-"`
	// Timeout limits one call. Default: Config.CallTimeout.
	Timeout time.Duration `json:"-"`
	// Sandbox is the sandbox of the program as the configuration writes it. nil means the sandbox
	// of all commands. A project's entry must not have one.
	Sandbox json.RawMessage `json:"-"`
	// Disabled is true if the entry says that the server must not be started.
	Disabled bool `json:"-"`
	// Project is true for an entry that comes with a project. It is not started until a person
	// trusts it.
	Project bool `json:"project"`
	// File and Line are where the entry stands. Text is the entry as written, before variables are
	// replaced. Hash is the SHA-256 of File, Name and Text, in hexadecimal digits: a changed entry
	// has to be trusted again.
	File string `json:"file"`
	Line int    `json:"line"`
	Text string `json:"-"`
	Hash string `json:"sha256"`
	// Problem is why the server cannot be started; "" if it can.
	Problem string `json:"problem,omitempty"`
}

// entry is the JSON form of a server. It accepts the spellings that other MCP clients write.
type entry struct {
	Type string `json:"type"`
	// Transport is another name of Type, which some clients write.
	Transport string   `json:"transport"`
	Command   string   `json:"command"`
	Args      []string `json:"args"`
	Env       texts    `json:"env"`
	Cwd       string   `json:"cwd"`
	URL       string   `json:"url"`
	// HTTPURL and ServerURL are other names of URL.
	HTTPURL   string `json:"httpUrl"`
	ServerURL string `json:"serverUrl"`
	Headers   texts  `json:"headers"`
	// Timeout is in milliseconds. 0 or less means Config.CallTimeout; more than a day means a day.
	Timeout  float64         `json:"timeout"`
	Sandbox  json.RawMessage `json:"sandbox"`
	Disabled bool            `json:"disabled"`
}

// entryKeys are the keys that are used. Others are reported in a note, because they may be typing
// errors.
var entryKeys = []string{"type", "transport", "command", "args", "env", "cwd", "url", "httpUrl", "serverUrl", "headers", "timeout", "sandbox", "disabled"}

// texts are texts by name. A number or a boolean counts as its text.
type texts map[string]string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var all map[string]any
	if err := dec.Decode(&all); err != nil {
		return err
	}
	*t = texts{}
	for key, value := range all {
		switch value.(type) {
		case string, json.Number, bool:
			(*t)[key] = fmt.Sprint(value)
		case nil:
			(*t)[key] = ""
		default:
			return fmt.Errorf("%s has to be a text, a number or a boolean", key)
		}
	}
	return nil
}

// plainJSON returns JSON with blanks in the place of comments and of commas before a closing bracket, which other programs
// allow. The offsets and the lines stay.
func plainJSON(text []byte) []byte {
	out, comma, last := bytes.Clone(text), -1, byte('{') // last is the last byte that is no blank
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; i < len(text); i++ {
		rest := text[i:]
		switch c := text[i]; {
		case c == '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			comma, last = -1, c
		case bytes.HasPrefix(rest, []byte("//")), bytes.HasPrefix(rest, []byte("/*")):
			end, after := "*/", 2
			if rest[1] == '/' {
				end, after = "\n", 0
			}
			n := len(rest) // a comment without an end goes to the file's end
			if at := bytes.Index(rest[2:], []byte(end)); at >= 0 {
				n = 2 + at + after
			}
			blank(i, i+n)
			i += n - 1
		case c == ',' && !bytes.ContainsRune([]byte("{[,"), rune(last)):
			comma, last = i, c
		case (c == '}' || c == ']') && comma >= 0:
			blank(comma, comma+1)
			comma, last = -1, c
		case c > ' ':
			comma, last = -1, c
		}
	}
	return out
}

// Read reads a .mcp.json. A file that does not exist has no servers. It replaces ${VAR} and
// ${VAR:-default} in the strings of an entry by what getenv returns. project is whether the file
// belongs to a project.
//
// A fault in one entry becomes that entry's Problem, so that the other servers can be used. Unknown
// keys are returned as notes of the form FILE:LINE: …, and are no error, because other programs
// read the file too. An error is about the whole file: it cannot be read, is no JSON object, is too
// large, or has a server twice.
func Read(file string, project bool, getenv func(string) string) (servers []Server, notes []string, err error) {
	text, err := readFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return parse(file, text, project, getenv)
}

// readFile returns the content of a regular file of at most maxFile bytes. It refuses pipes and
// devices, which could block the node or never end. os.ErrNotExist is returned for a directory,
// too.
func readFile(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	// The sandbox may put a directory there while a command runs, to keep the command from creating
	// the file. That is no file of servers.
	if info.IsDir() {
		return nil, os.ErrNotExist
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d KiB", file, maxFile>>10)
	}
	return text, err
}

// parse reads the text of a file. It uses members in place of a map, because only an ordered list
// has the line of each entry and shows keys that occur twice.
func parse(file string, text []byte, project bool, getenv func(string) string) (servers []Server, notes []string, err error) {
	at := func(offset int64) int {
		return 1 + bytes.Count(text[:min(max(offset, 0), int64(len(text)))], []byte("\n"))
	}
	text = plainJSON(text)
	// Unmarshal checks the whole text, also what is behind the object; members does not.
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, nil, fmt.Errorf("%s:%d: it is not one JSON object: %w; mend it there: {\"mcpServers\": {\"NAME\": {\"command\": \"PROGRAM\"}}}", file, at(offsetOf(err)), err)
	}
	top, err := members(text, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, m := range top {
		if m.key == "servers" {
			notes = append(notes, fmt.Sprintf("%s:%d: the key \"servers\" is not used: call it mcpServers, if these are the MCP servers", file, at(m.at)))
			continue
		}
		if m.key != "mcpServers" {
			notes = append(notes, fmt.Sprintf("%s:%d: the key %q is not known, and not used", file, at(m.at), m.key))
			continue
		}
		if servers != nil {
			return nil, nil, fmt.Errorf("%s:%d: mcpServers is there twice", file, at(m.at))
		}
		list, err := members(m.value, m.from)
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: mcpServers has to be an object of servers by name", file, at(m.at))
		}
		if len(list) > maxServers {
			return nil, nil, fmt.Errorf("%s: %d servers; at most %d are read", file, len(list), maxServers)
		}
		servers = []Server{}
		for _, e := range list {
			s := Server{Name: e.key, Project: project, File: file, Line: at(e.at), Text: string(e.value)}
			if slices.ContainsFunc(servers, func(o Server) bool { return o.Name == s.Name }) {
				return nil, nil, fmt.Errorf("%s:%d: the server %q is there twice", file, s.Line, s.Name)
			}
			// The NULs separate the parts.
			sum := sha256.Sum256([]byte(file + "\x00" + s.Name + "\x00" + s.Text))
			s.Hash = hex.EncodeToString(sum[:])
			for _, key := range s.read(e.value, getenv) {
				notes = append(notes, fmt.Sprintf("%s:%d: server %q: the key %q is not known, and not used", file, s.Line, s.Name, key))
			}
			servers = append(servers, s)
		}
	}
	return servers, notes, nil
}

// offsetOf returns the byte offset of an error of encoding/json, or 0 if the error has none.
func offsetOf(err error) int64 {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return syntax.Offset
	case errors.As(err, &kind):
		return kind.Offset
	}
	return 0
}

// member is a key of an object, and where in the file it stands.
type member struct {
	key string
	// at is the offset of the key's end in the file, from the offset of the value's beginning.
	at, from int64
	// value is the text of the value as it stands in the file.
	value json.RawMessage
}

// members returns the members of the JSON object text, in the order of the file. from is the offset
// of the object in the file; the offsets of the members are counted from the start of the file. It
// returns an error if text is no object.
func members(text []byte, from int64) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is no JSON object")
	}
	var all []member
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{at: from + dec.InputOffset()}
		// The keys of an object are always strings.
		m.key, _ = key.(string)
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		m.from = from + dec.InputOffset() - int64(len(m.value))
		all = append(all, m)
	}
	return all, nil
}

// read fills s from its JSON text and returns the keys that are not known. A fault is stored in
// s.Problem. The fields of a faulty entry are only filled as far as read came.
func (s *Server) read(text json.RawMessage, getenv func(string) string) (unknown []string) {
	list, err := members(text, 0)
	if err != nil {
		s.Problem = "it is no JSON object"
		return nil
	}
	for _, m := range list {
		if !slices.Contains(entryKeys, m.key) {
			unknown = append(unknown, m.key)
		}
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		var kind *json.UnmarshalTypeError
		s.Problem = "it cannot be read: " + err.Error()
		if errors.As(err, &kind) {
			s.Problem = fmt.Sprintf("%s: a JSON %s stands where another kind of value has to", kind.Field, kind.Value)
		}
		return unknown
	}
	e.URL = cmp.Or(e.URL, e.HTTPURL, e.ServerURL)
	if err := e.expand(getenv); err != nil {
		s.Problem = err.Error()
		return unknown
	}
	s.Type, s.Command, s.Args, s.Env, s.Dir = e.Type, e.Command, e.Args, e.Env, e.Cwd
	s.URL, s.Headers, s.Sandbox, s.Disabled = e.URL, e.Headers, e.Sandbox, e.Disabled
	if e.Type == "" {
		s.Type = e.Transport
	}
	if e.Timeout > 0 {
		s.Timeout = time.Duration(min(e.Timeout, 24*3600*1000)) * time.Millisecond
	}
	s.Problem = s.check()
	return unknown
}

// check sets the type if the entry does not name one, and returns what is wrong with s; "" if
// nothing is.
func (s *Server) check() string {
	switch {
	case s.Name == "" || len(s.Name) > 200:
		return "its name has to be of 1 to 200 bytes"
	case s.Type == "" && s.Command != "":
		s.Type = Stdio
	case s.Type == "" && s.URL != "", s.Type == "streamable-http", s.Type == "streamableHttp":
		s.Type = HTTP
	}
	switch {
	case s.Project && len(s.Sandbox) > 0:
		return "sandbox stands in your own file alone: a project does not choose how its programs are held"
	case s.Type == Stdio && s.Command == "":
		return "it has no command"
	case s.Type == Stdio && s.Dir != "" && !filepath.IsAbs(s.Dir):
		return "cwd has to be an absolute path"
	case s.Type == Stdio:
		return ""
	case s.Type != HTTP && s.Type != SSE:
		return fmt.Sprintf("the type %q is not known: write stdio with a command, or http or sse with a url", s.Type)
	}
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "its url has to begin with http:// or https:// and a host"
	}
	return ""
}

// expand replaces the variables in all strings of the entry except its type and its sandbox. It
// returns an error that names the variables that are not set and have no default.
func (e *entry) expand(getenv func(string) string) error {
	var missing []string
	put := func(text *string) { *text = expand(*text, getenv, &missing) }
	for _, text := range []*string{&e.Command, &e.URL, &e.Cwd} {
		put(text)
	}
	for i := range e.Args {
		put(&e.Args[i])
	}
	for _, m := range []map[string]string{e.Env, e.Headers} {
		for key, value := range m {
			put(&value)
			m[key] = value
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return fmt.Errorf("the variable %s is not set; set it, or write ${%s:-DEFAULT}", strings.Join(slices.Compact(missing), ", "), missing[0])
	}
	return nil
}

// expand replaces ${VAR} and ${VAR:-default} in text and adds the variables that are not set to
// missing. Values are not expanded again, so a variable cannot pull in another one. An unclosed ${
// or one without a valid name stays as it is.
func expand(text string, getenv func(string) string, missing *[]string) string {
	var b strings.Builder
	for {
		// b gets everything before the variable; text becomes the rest.
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		inner, after, closed := strings.Cut(rest, "}")
		name, otherwise, hasDefault := strings.Cut(inner, ":-")
		if !closed || !variable(name) {
			b.WriteString("${")
			text = rest
			continue
		}
		value := getenv(name)
		if value == "" {
			if value = otherwise; !hasDefault {
				*missing = append(*missing, name)
			}
		}
		b.WriteString(value)
		text = after
	}
}

// variable reports whether name is a name of an environment variable: letters, digits and
// underscores, not beginning with a digit.
func variable(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
