package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"symbio/agent/llm"
	"symbio/agent/tool"
	"symbio/community"
)

// Limits of a server's lists. They keep one server from filling the context of a
// model or the memory of the node. A longer list would not help a model either.
const (
	// maxPages limits the pages of one list.
	maxPages = 50
	// maxTools limits the tools of a server. The two tools for resources come on top.
	maxTools = 256
	// maxDescription limits a tool's description, in bytes.
	maxDescription = 4 << 10
	// maxSchema limits a tool's schema, in bytes of JSON.
	maxSchema = 32 << 10
	// maxSchemaDepth limits how deeply a schema is nested.
	maxSchemaDepth = 48
	// maxNotes limits the notes of one list, so that a server with many faults does not fill its
	// Status.
	maxNotes = 20
	// maxResources is the number of resources after which list_resources requests no further page.
	maxResources = 1000
	// resourcesPerPage is the number of lines that one call of list_resources shows.
	resourcesPerPage = 100
)

// anySchema replaces a schema that cannot be used. The server itself then reports what is wrong
// with a call.
var anySchema = json.RawMessage(`{"type":"object"}`)

// list reads the server's tools and stores them. On an error the earlier tools stay. It reports
// tools that differ from their pinned hash before agents are offered them. connect and serve call
// it, one after the other, so that two lists never mix. A fault in one tool becomes a note and no
// error.
func (s *server) list(ctx context.Context, session *sdk.ClientSession) error {
	var tools []*Tool
	var notes []string
	note := func(format string, args ...any) {
		if len(notes) < maxNotes {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	// The names that models see may be equal for two tools of a hostile server: see toolName.
	seen := map[string]bool{}
	add := func(t *Tool) {
		if seen[t.spec.Name] {
			note("the tool %s is there twice: the first counts", t.spec.Name)
			return
		}
		seen[t.spec.Name] = true
		tools = append(tools, t)
	}
	// A server that does not offer tools may answer tools/list with an error. It is not asked then.
	capabilities := session.InitializeResult().Capabilities
	if capabilities != nil && capabilities.Tools != nil {
		err := pages(func(cursor string) (string, error) {
			r, err := session.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
			if err != nil {
				return "", err
			}
			for _, t := range r.Tools {
				if len(tools) == maxTools {
					note("it has more than %d tools: the others are left out", maxTools)
					// No next cursor, so pages requests no further page.
					return "", nil
				}
				if t != nil {
					add(s.tool(t, note))
				}
			}
			return r.NextCursor, nil
		})
		if err != nil {
			return err
		}
	}
	if capabilities != nil && capabilities.Resources != nil {
		for _, t := range s.resourceTools() {
			add(t)
		}
	}
	if changed := s.compare(tools); changed != "" {
		note("%s", changed)
		s.m.cfg.Logger.Warn("mcp server has changed", "server", s.entry.Name, "what", changed)
		// Report comes before the tools are stored: the person is informed before agents are
		// offered them.
		s.m.cfg.Report(Status{Server: s.entry, State: s.status().State, Why: changed})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.notes = tools, notes
	return nil
}

// compare returns a message that names the tools that differ from their pinned hash; "" if none
// does. It pins the tools that have no pin yet: the first version that is seen counts as accepted.
// A tool that differs keeps its old pin until a person accepts it (Tool.Accept).
func (s *server) compare(tools []*Tool) string {
	var names []string
	first := map[string]string{}
	for _, t := range tools {
		if t.Doubt() != "" {
			names = append(names, t.spec.Name)
		} else if t.Hash != "" && s.m.cfg.Pins.Pinned(s.entry.Hash, t.Name) == "" {
			first[t.Name] = t.Hash
		}
	}
	s.pin(first)
	if len(names) == 0 {
		return ""
	}
	part := ServerPart(s.entry.Name)
	return fmt.Sprintf("%s changed what they say of themselves since they were first listed here: symbio mcp tools %s shows them, symbio mcp trust %s --tools accepts them", strings.Join(names, ", "), part, part)
}

// pin stores hashes of tools. A failure is logged only: the tool works, and a change of it may stay
// unnoticed after a restart.
func (s *server) pin(tools map[string]string) {
	if len(tools) == 0 {
		return
	}
	if err := s.m.cfg.Pins.Pin(s.entry.Hash, tools); err != nil {
		s.m.cfg.Logger.Warn("what an mcp tool is was not kept", "server", s.entry.Name, "err", err)
	}
}

// pages calls read for each page of a list until there is no next cursor. It stops after maxPages
// and when a server returns the same cursor again, so that a server cannot keep it busy for ever.
func pages(read func(cursor string) (next string, err error)) error {
	cursor := ""
	for range maxPages {
		next, err := read(cursor)
		if err != nil || next == "" || next == cursor {
			return err
		}
		cursor = next
	}
	return nil
}

// tool makes a Tool of a server's description. note receives what was left out or replaced. The
// hash covers the texts as the server sent them, not as they are shown, so that no change can hide
// in what was cut off. It does not cover the output schema.
func (s *server) tool(t *sdk.Tool, note func(string, ...any)) *Tool {
	name := toolName(s.entry.Name, t.Name)
	// JSON separates the texts, so that none can move from one to the next unnoticed.
	// It is encoded before schemaOf changes the schema.
	all, err := json.Marshal([]any{t.Name, t.Description, t.Title, t.InputSchema})
	if err != nil {
		// A description that cannot be encoded is not shown either.
		all = []byte(name)
	}
	in, why := schemaOf(t.InputSchema)
	if why != "" {
		note("the schema of %s %s: any arguments are let through to it", name, why)
		in = anySchema
	}
	out, why := schemaOf(t.OutputSchema)
	if why != "" {
		out = nil
	}
	description := cmp.Or(tool.Readable([]byte(t.Description)), tool.Readable([]byte(t.Title)))
	if len(description) > maxDescription {
		note("the description of %s is longer than %d KiB: the rest is left out", name, maxDescription>>10)
		description = tool.Readable([]byte(description[:maxDescription]))
	}
	remote := &Tool{
		Name: t.Name, server: s, Output: out, readOnly: t.Annotations != nil && t.Annotations.ReadOnlyHint,
		spec: llm.ToolSpec{Name: name, Description: description + fmt.Sprintf("\n(A tool of the MCP server %s.)", ServerPart(s.entry.Name)), Schema: in},
	}
	// The protocol has a failure of the tool as a result with isError, and a refusal by the server
	// as a JSON-RPC error. A tool that must be called as a task can be refused in both ways.
	remote.do = func(ctx context.Context, session *sdk.ClientSession, token string, args map[string]any) (Answer, error) {
		p := &sdk.CallToolParams{Name: t.Name, Arguments: args}
		p.SetProgressToken(token)
		r, err := session.CallTool(ctx, p)
		if err != nil {
			return Answer{}, err
		}
		a := answerOf(r)
		if a.IsError && asksForTask(a.Text) {
			return Answer{}, errTask
		}
		return a, nil
	}
	sum := sha256.Sum256(all)
	remote.Hash = hex.EncodeToString(sum[:])
	return remote
}

// schemaOf returns a schema in the form that models are shown, or why it cannot be used. It adds
// "type": "object" where that is missing, because some model services require it. It checks the
// size and the form only; the meaning of the schema is the server's affair. It changes v.
func schemaOf(v any) (text json.RawMessage, why string) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, "is no JSON object"
	}
	kinds, _ := object["type"].([]any)
	if kind, ok := object["type"]; !ok || slices.Contains(kinds, any("object")) {
		object["type"] = "object"
	} else if kind != "object" {
		return nil, "is not for an object"
	}
	if properties, ok := object["properties"]; ok {
		if _, ok := properties.(map[string]any); !ok {
			return nil, "has properties that are none"
		}
	}
	text, err := json.Marshal(object)
	switch {
	case err != nil:
		return nil, "cannot be written"
	case len(text) > maxSchema:
		return nil, fmt.Sprintf("is longer than %d KiB", maxSchema>>10)
	case community.CheckJSON(text, maxSchemaDepth) != nil:
		return nil, fmt.Sprintf("is nested more than %d deep", maxSchemaDepth)
	}
	return text, ""
}
