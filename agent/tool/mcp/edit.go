package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"symbio/internal/security/private"
	"symbio/internal/security/visible"
)

// ErrExists is returned for a server that a file has already.
var ErrExists = errors.New("there is such a server already")

// ErrEntry is returned for an entry that could not be used.
var ErrEntry = errors.New("the entry cannot be used")

// NewEntry is an entry as Add writes it.
type NewEntry struct {
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	URL     string            `json:"url,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// Add writes a new server into a file, which it makes if there is none. Everything else in the file
// stays as it is, but for white space between entries. It returns ErrExists if the file has a server
// with that name or one that has the same part in the names of tools, and ErrEntry for an entry that
// could not be used. project is whether the file belongs to a project.
func Add(file, name string, e NewEntry, project bool) error {
	text, err := visible.JSON(e)
	if err != nil {
		return err
	}
	check := Server{Name: name, Project: project}
	// Variables are replaced when the server is used; here they count as set.
	if check.read(text, func(string) string { return "http://localhost" }); check.Problem != "" {
		return fmt.Errorf("%w: the server %q: %s", ErrEntry, name, check.Problem)
	}
	return edit(file, project, func(list []member) ([]member, error) {
		if i := slices.IndexFunc(list, func(m member) bool { return ServerPart(m.key) == ServerPart(name) }); i >= 0 {
			return nil, fmt.Errorf("%w: %q in %s; remove it first, or take another name", ErrExists, list[i].key, file)
		}
		return append(list, member{key: name, value: text}), nil
	})
}

// Remove takes a server out of a file. It returns ErrUnknown if the file has no server with that
// name.
func Remove(file, name string) error {
	return edit(file, false, func(list []member) ([]member, error) {
		left := slices.DeleteFunc(slices.Clone(list), func(m member) bool { return m.key == name })
		if len(left) == len(list) {
			return nil, fmt.Errorf("%w: %s has no MCP server %q", ErrUnknown, file, name)
		}
		return left, nil
	})
}

// edit replaces the servers of a file by what change returns for them. The file is replaced in one
// step, and keeps its mode; a new one is for the user alone, unless it is shared with a project.
func edit(file string, shared bool, change func([]member) ([]member, error)) error {
	text, err := readFile(file)
	mode := fs.FileMode(0o600)
	if shared {
		mode = 0o644
	}
	switch info, statErr := os.Stat(file); {
	case errors.Is(err, fs.ErrNotExist):
		text = []byte("{}\n")
	case errors.Join(err, statErr) != nil:
		return errors.Join(err, statErr)
	default:
		mode = info.Mode().Perm()
	}
	if _, _, err := parse(file, text, false, os.Getenv); err != nil {
		return err
	}
	if !json.Valid(text) { // but for comments and commas, which parse allows
		return fmt.Errorf("%s has comments, or a comma before a closing bracket, which a change by this command would lose: edit the file, or take them out", file)
	}
	text, err = rewrite(text, change)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real // the link stays
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := private.Replace(file, text); err != nil {
		return err
	}
	return os.Chmod(file, mode)
}

// rewrite returns the text of a file with changed servers. text must be valid.
func rewrite(text []byte, change func([]member) ([]member, error)) ([]byte, error) {
	top, err := members(text, 0)
	if err != nil {
		return nil, err
	}
	// Without the key, it comes first in the file.
	at := int64(bytes.IndexByte(text, '{') + 1)
	from, to, before, after := at, at, "\n  \"mcpServers\": ", ",\n  "
	if len(top) == 0 {
		after = "\n"
	}
	var list []member
	if i := slices.IndexFunc(top, func(m member) bool { return m.key == "mcpServers" }); i >= 0 {
		from, to, before, after = top[i].from, top[i].from+int64(len(top[i].value)), "", ""
		if list, err = members(top[i].value, 0); err != nil {
			return nil, err
		}
	}
	if list, err = change(list); err != nil {
		return nil, err
	}
	servers := []byte("{")
	for i, m := range list {
		if i > 0 {
			servers = append(servers, ',')
		}
		key, err := visible.JSON(m.key)
		if err != nil {
			return nil, err
		}
		servers = fmt.Appendf(servers, "\n    %s: %s", key, m.value)
	}
	if len(list) > 0 {
		servers = append(servers, "\n  "...)
	}
	servers = append(servers, '}')
	rest := text[to:]
	if before != "" {
		rest = bytes.TrimLeft(rest, " \t\r\n")
	}
	return slices.Concat(text[:from], []byte(before), servers, []byte(after), rest), nil
}
