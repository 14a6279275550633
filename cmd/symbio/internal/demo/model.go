package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"symbio/agent/llm"
	"symbio/internal/security/lazyregexp"
	"symbio/internal/security/visible"
)

// The names under which the nodes of the tour know their models: configurations name them "func:survey" and so on.
const (
	modelName = "survey"
	// stuckModelName is the model that node b has before it is killed: it gives its first answer and then thinks until its
	// node ends, so that there is work to be interrupted.
	stuckModelName = "survey-stuck"
)

// The model of the tour answers at once, so that a second machine would gain nothing. For symbio map it is as slow as a model:
// an item takes mapPause, and a node does mapPlaces of them at the same time.
const (
	mapPause  = 200 * time.Millisecond
	mapPlaces = 2
)

// Models returns the models of the tour by their names: Go functions that use tools as a language model would. Each answer
// follows from the messages of the request. The surveyor and its sub-agents share them.
func Models() map[string]llm.Model {
	places := make(chan struct{}, mapPlaces)
	model := func(stuck bool) llm.Model {
		return llm.Func(func(ctx context.Context, r llm.Request) (llm.Response, error) {
			c := newConversation(r.Messages)
			if stuck && c.turns > 0 {
				<-ctx.Done()
				return llm.Response{}, context.Cause(ctx)
			}
			message, err := c.answer(ctx, places)
			return llm.Response{Message: message, Usage: llm.EstimateUsage(r, message)}, err
		})
	}
	return map[string]llm.Model{modelName: model(false), stuckModelName: model(true)}
}

// turn is one answer of the model: text, calls of tools, or both.
type turn = llm.Message

// answer returns the next turn. The first line of the task says whether it is for the whole
// directory, for a part, or an item of symbio map.
func (c *conversation) answer(ctx context.Context, places chan struct{}) (turn, error) {
	if part := partTask().FindStringSubmatch(c.task); part != nil {
		return c.surveyPart(part[1]), nil
	} else if survey := surveyTask().FindStringSubmatch(c.task); survey != nil {
		return c.survey(survey[1], survey[2]), nil
	} else if word := shoutTask().FindStringSubmatch(c.task); word != nil {
		return shout(ctx, places, word[1])
	}
	return turn{Text: "I survey directories, and know nothing else."}, nil
}

// The tasks that the model understands. They must match what the tour and spawnAll write.
var (
	surveyTask = lazyregexp.New(`^Survey the directory (.+) and write the report to (.+)$`)
	partTask   = lazyregexp.New(`(?m)^Survey the part ([^\n]+)`)
	shoutTask  = lazyregexp.New(`^Shout (\w+)$`)
)

// shout answers an item of symbio map when it has one of the places.
func shout(ctx context.Context, places chan struct{}, word string) (turn, error) {
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return turn{}, context.Cause(ctx)
	}
	select {
	case <-time.After(mapPause):
		return turn{Text: strings.ToUpper(word) + "!"}, nil
	case <-ctx.Done():
		return turn{}, context.Cause(ctx)
	}
}

// conversation is what the request holds, from the message that began the task.
type conversation struct {
	// task is the text of the message that began the task.
	task string
	// remarks are user messages that came while the model worked.
	remarks []string
	// turns counts the answers of the model since the task began.
	turns int
	// results are all results of tools since the task began; last are the results in the latest message.
	results []toolResult
	// last are the results in the latest message that has some.
	last []toolResult
}

// toolResult is the result of a call, together with the arguments of the call.
type toolResult struct {
	llm.ToolResult
	args json.RawMessage
}

// newConversation reads the messages of a request. A user message that follows results of tools is
// a remark; any other one begins a new task.
func newConversation(messages []llm.Message) *conversation {
	c := &conversation{}
	args := map[string]json.RawMessage{}
	for i, m := range messages {
		switch {
		case m.Role == llm.User && i > 0 && messages[i-1].Role == llm.Tool:
			c.remarks = append(c.remarks, m.Text)
		case m.Role == llm.User:
			*c = conversation{task: m.Text}
		case m.Role == llm.Assistant:
			c.turns++
			for _, call := range m.Calls {
				args[call.ID] = call.Args
			}
		default:
			c.last = nil
			for _, r := range m.Results {
				c.last = append(c.last, toolResult{r, args[r.CallID]})
			}
			c.results = append(c.results, c.last...)
		}
	}
	return c
}

// resultsOf returns the results of a tool since the task began.
func (c *conversation) resultsOf(tool string) (list []toolResult) {
	for _, r := range c.results {
		if r.Name == tool {
			list = append(list, r)
		}
	}
	return list
}

// after reports whether the latest results include one of that tool that contains text.
func (c *conversation) after(tool, text string) bool {
	return slices.ContainsFunc(c.last, func(r toolResult) bool { return r.Name == tool && strings.Contains(r.Text, text) })
}

// call returns a call of a tool.
func call(tool string, args any) llm.ToolCall {
	return llm.ToolCall{Name: tool, Args: json.RawMessage(encode(args))}
}

// encode returns v as JSON. It is used for strings, numbers and the types of a survey, which can
// always be encoded.
func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

// object is the arguments of a call.
type object = map[string]any

// survey returns the next turn of the agent that surveys the whole directory. Each case follows
// from the number of turns and the latest results.
func (c *conversation) survey(dir, report string) turn {
	listAll := call("Glob", object{"pattern": "*"})
	skill := object{"skillName": "survey-directory"}
	switch {
	case c.turns == 0:
		return turn{Text: "I look at what there is.", Calls: []llm.ToolCall{listAll}}
	// The first Glob was refused: a rule asks about it, and the scripted user says no.
	case c.turns == 1 && c.last[0].IsError:
		// The skill's grants allow calls from now on, but not calls that a rule denies.
		return turn{Text: "There is a skill for this, which may look around. I take it.", Calls: []llm.ToolCall{
			call("activate_skill", skill), listAll, call("Read", object{"file_path": deniedFile}), call("find_members", object{"provides": lendCapability})}}
	case c.turns == 2 && c.after("Glob", "total\t0 files\t0 directories"):
		return turn{Text: "The directory is empty; that is a report too.", Calls: []llm.ToolCall{render(Survey{Dir: dir, Parts: []Part{}})}}
	case c.turns == 2 && c.after("Glob", "total\t"):
		return turn{Text: "A sub-agent for each part, which begins at once.", Calls: append(c.spawnAll(), call("find_members", object{"provides": renderCapability}))}
	case c.after("replicate_agent", `"success":true`):
		return turn{Text: "They work side by side.", Calls: c.waitForAll()}
	case c.after("wait_agents", `"status":"working"`):
		return turn{Calls: c.waitForAll()}
	case c.after("wait_agents", "") && len(c.repeatLost()) > 0:
		return turn{Text: "A sub-agent was lost with its node. One on this node does its part.", Calls: c.repeatLost()}
	case c.after("wait_agents", ""):
		return turn{Text: "All have answered, and may go. The other node renders the report.",
			Calls: []llm.ToolCall{call("stop_agents", nil), render(Survey{Dir: dir, Parts: c.parts(), Note: c.note()})}}
	case c.after("invoke_capability", `# Survey`):
		var text string
		if err := json.Unmarshal([]byte(c.last[len(c.last)-1].Text), &text); err != nil {
			return turn{Text: "The report cannot be read: " + err.Error()}
		}
		return turn{Calls: []llm.ToolCall{call("Write", object{"file_path": report, "content": text})}}
	case c.after("Write", "") && !c.last[0].IsError:
		return turn{Text: "The report is written; I need the skill no more.", Calls: []llm.ToolCall{call("deactivate_skill", skill), listAll}}
	case c.after("deactivate_skill", ""):
		return turn{Text: c.summary(dir)}
	}
	text := "The survey could not be done:"
	for _, r := range c.last {
		if r.IsError {
			text += " " + r.Name + ": " + r.Text
		}
	}
	return turn{Text: text}
}

func render(s Survey) llm.ToolCall {
	return call("invoke_capability", object{"capability": renderCapability, "data": encode(s)})
}

var (
	listed    = lazyregexp.New(`(?m)^([^#\n].*)/("?)$`)
	topFiles  = lazyregexp.New(`total\t[1-9][0-9]* file`)
	notInName = lazyregexp.New(`[^A-Za-z0-9._-]+`)
)

// spawnAll returns the calls that spawn a sub-agent for each part: each directory at the top, and
// "." for the files there. The last part goes to a sub-agent on another node, if one lends agents.
func (c *conversation) spawnAll() (calls []llm.ToolCall) {
	listing := c.resultsOf("Glob")
	text := listing[len(listing)-1].Text
	var parts []string
	if topFiles().MatchString(text) {
		parts = []string{"."}
	}
	for _, found := range listed().FindAllStringSubmatch(text, -1) {
		name := found[1]
		if found[2] != "" && json.Unmarshal([]byte(name+`"`), &name) != nil {
			continue
		}
		if name != ".git" {
			parts = append(parts, name)
		}
	}
	var lenders []struct{ Name string }
	// The tool answers with a sentence when there are no such members; lenders stays empty then.
	_ = json.Unmarshal([]byte(c.resultsOf("find_members")[0].Text), &lenders)
	for i, part := range parts {
		name := "survey-top"
		if part != "." {
			name = "survey-" + notInName().ReplaceAllString(part, "-")
			name = name[:min(len(name), 47)]
		}
		task := "Survey the part " + part
		if i == 0 {
			// The first sub-agent is asked for something that its rules deny.
			task += "\n" + notesRequest
		}
		args := object{"reason": "survey " + part, "name": name, "task": task, "tools": []string{"activate_skill", "Read", "Glob", "Grep"}}
		if len(lenders) > 0 && part != "." && i == min(100, len(parts)-1) {
			args["node"], args["budget"] = lenders[0].Name, object{"model_calls": 10, "tokens": 500_000, "agents": 1}
		}
		calls = append(calls, call("replicate_agent", args))
	}
	return calls
}

// subagent is what the conversation says about a sub-agent: the call that spawned it, its id, and its answer.
type subagent struct {
	args   object
	id     string
	part   Part
	failed string
}

// subagents returns the sub-agents in the order of their calls, with their latest answers.
func (c *conversation) subagents() (list []subagent) {
	type outcome struct {
		ID            string `json:"agent_id"`
		Result, Error string
	}
	outcomes := map[string]outcome{}
	for _, r := range c.resultsOf("wait_agents") {
		var answer struct{ Agents []outcome }
		_ = json.Unmarshal([]byte(r.Text), &answer) // the text of a refused call is no JSON; there are no answers then
		for _, o := range answer.Agents {
			outcomes[o.ID] = o
		}
	}
	for _, r := range c.resultsOf("replicate_agent") {
		var s subagent
		var made outcome
		_, _ = json.Unmarshal(r.args, &s.args), json.Unmarshal([]byte(r.Text), &made)
		reason, _ := s.args["reason"].(string)
		o := outcomes[made.ID]
		s.id, s.failed = made.ID, o.Error
		s.part = Part{Part: strings.TrimPrefix(reason, "survey "), Error: cmp.Or(o.Error, "it gave no answer")}
		if r.IsError {
			s.part.Error = r.Text
		}
		var got Part
		if json.Unmarshal([]byte(o.Result), &got) == nil && got.Part != "" {
			s.part = got
		}
		list = append(list, s)
	}
	return list
}

// waitForAll returns the calls that wait for the sub-agents: four in each, because the tool cuts
// results that are longer.
func (c *conversation) waitForAll() (calls []llm.ToolCall) {
	var ids []string
	for _, s := range c.subagents() {
		if s.id != "" {
			ids = append(ids, s.id)
		}
	}
	for some := range slices.Chunk(ids, 4) {
		calls = append(calls, call("wait_agents", object{"agents": some}))
	}
	return calls
}

// repeatLost returns the calls that spawn sub-agents here for the parts whose sub-agents on another
// node failed, once for each part.
func (c *conversation) repeatLost() (calls []llm.ToolCall) {
	all := c.subagents()
	for i, s := range all {
		again := slices.ContainsFunc(all[i+1:], func(o subagent) bool { return o.part.Part == s.part.Part })
		if s.args["node"] != nil && s.failed != "" && !again {
			delete(s.args, "node")
			delete(s.args, "budget")
			calls = append(calls, call("replicate_agent", s.args))
		}
	}
	return calls
}

// parts returns the results of all sub-agents. A part whose agent failed has an error, unless another
// agent did it.
func (c *conversation) parts() (list []Part) {
	for _, s := range c.subagents() {
		if i := slices.IndexFunc(list, func(p Part) bool { return p.Part == s.part.Part }); i >= 0 {
			list[i] = s.part // it was done again
		} else {
			list = append(list, s.part)
		}
	}
	return list
}

// aboutSize finds the one question that the model can answer: which part is the largest.
var aboutSize = lazyregexp.New(`(?i)largest|biggest`)

// note returns the answer to the remarks of the person, as far as the model knows one; else "".
func (c *conversation) note() string {
	var largest Part
	for _, p := range c.parts() {
		if p.Error == "" && p.Lines >= largest.Lines {
			largest = p
		}
	}
	if largest.Part == "" || !slices.ContainsFunc(c.remarks, aboutSize().MatchString) {
		return ""
	}
	return fmt.Sprintf("The largest part is %s, with %s.", largest.Part, visible.Plural(largest.Lines, "line"))
}

// summary returns the final answer of the survey.
func (c *conversation) summary(dir string) string {
	parts := c.parts()
	total, _ := sum(parts)
	text := dir + ": " + visible.Plural(len(parts), "part") + ", " + total.sizes() + "."
	if note := c.note(); note != "" {
		text += " " + note
	}
	var failed []string
	for _, p := range parts {
		if p.Error != "" {
			failed = append(failed, p.Part)
		}
	}
	if len(failed) > 0 {
		text += " Not surveyed: " + strings.Join(failed, ", ") + "."
	}
	return text
}
