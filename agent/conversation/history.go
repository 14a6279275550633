package conversation

import (
	"fmt"
	"slices"

	"symbio/agent/llm"
)

// history is the messages of a conversation, and how much they are. It is a value: what grows from
// a copy does not show in the other, as long as the first is not appended to; see clip.
type history struct {
	// session is what the messages are continued with; its own Messages are not used.
	session  Session
	messages []llm.Message
	// whole is an estimate of their tokens. counted is what the model counted the last time, with
	// the prompt and the tools; 0 = never. since is an estimate of the messages behind that.
	whole, counted, since int
	// broken says that the last exchange was ended from outside: the model is told with the next
	// message.
	broken bool
	// version changes with Replace.
	version int
	// pictures: there are some among the messages.
	pictures bool
	// lost reports that messages of earlier exchanges are gone and no event has said so yet.
	lost bool
}

// brokenNote is what the model reads of an exchange that was ended from outside.
const brokenNote = "[The last exchange was interrupted before its end; what was being done then may be half done.]"

// clip keeps what is appended to copies from being written into what a request may still refer to.
func (h *history) clip() { h.messages = slices.Clip(h.messages) }

func (h *history) add(m llm.Message) {
	h.messages = append(h.messages, m)
	h.grow(tokens(m))
	h.pictures = h.pictures || shows(m)
}

// shows says whether there are pictures in a message.
func shows(m llm.Message) bool {
	return len(m.Images) > 0 || slices.ContainsFunc(m.Results, func(r llm.ToolResult) bool { return len(r.Images) > 0 })
}

// shown are the messages as the model is given them: with as many pictures as a request may hold.
func (h *history) shown() []llm.Message {
	if !h.pictures {
		return h.messages
	}
	return llm.FitImages(h.messages, llm.MaxImages, llm.MaxImageBytes)
}

func (h *history) grow(by int) {
	h.whole += by
	h.since += by
}

// say adds what a person says: to the message at the end, if that is theirs and the model was not
// given it yet. It reports whether that was so.
func (h *history) say(text string) bool {
	if n := len(h.messages); n > 0 && h.messages[n-1].Role == llm.User {
		m := &h.messages[n-1]
		before := tokens(*m)
		m.Text += "\n\n" + text
		h.grow(tokens(*m) - before)
		return true
	}
	h.add(llm.Message{Role: llm.User, Text: text})
	return false
}

// count notes what the model counted for a request and its answer, which is the last message.
// prompt is an estimate of what the request had beside the messages. A count that is less than half
// of the estimate or more than twice is not believed: some servers leave out what they had in a
// cache.
func (h *history) count(u llm.Usage, prompt int) {
	if u.Input <= 0 {
		return
	}
	all := prompt + h.whole
	h.counted, h.since = min(max(u.Input+u.Output, all/2), all*2), 0
}

// size is how many tokens a request with these messages has.
func (h *history) size(prompt int) int {
	if h.counted == 0 {
		return prompt + h.whole
	}
	return h.counted + h.since
}

// put is the history with other messages.
func (h *history) put(messages []llm.Message) {
	h.messages, h.whole, h.counted, h.since = messages, 0, 0, 0
	h.pictures = slices.ContainsFunc(messages, shows)
	for _, m := range messages {
		h.whole += tokens(m)
	}
}

const (
	// bytesPerToken is on the safe side for most languages: four in English, three in Japanese,
	// less in code.
	bytesPerToken = 3
	// perMessage is what the frame of a message takes, perImage a picture of usual size.
	perMessage = 8
	perImage   = 1600
)

// textBytes is how many bytes of text a message has, with the names, ids and arguments of calls.
func textBytes(m llm.Message) int {
	bytes := len(m.Text)
	for _, t := range m.Thinking {
		bytes += len(t.Text) + len(t.Signature) + len(t.Sealed)
	}
	for _, c := range m.Calls {
		bytes += len(c.ID) + len(c.Name) + len(c.Args)
	}
	for _, r := range m.Results {
		bytes += len(r.CallID) + len(r.Name) + len(r.Text)
	}
	return bytes
}

// tokens is an estimate of what a message takes.
func tokens(m llm.Message) int {
	bytes, images := textBytes(m)+perMessage*(len(m.Calls)+len(m.Results)), len(m.Images)
	for _, r := range m.Results {
		images += len(r.Images)
	}
	return bytes/bytesPerToken + images*perImage + perMessage
}

// Sound returns an error that wraps ErrUnsound if a history cannot be given to a model: each call
// has exactly one result, in the message behind it, and each result its call; it begins with a
// user message.
func Sound(messages []llm.Message) error {
	if len(messages) > 0 && messages[0].Role != llm.User {
		return fmt.Errorf("%w: it begins with a message of role %q", ErrUnsound, messages[0].Role)
	}
	var open []llm.ToolCall
	for i, m := range messages {
		switch {
		case (m.Role == llm.Tool) != (len(open) > 0):
			return fmt.Errorf("%w: message %d, of role %q, follows %d calls", ErrUnsound, i+1, m.Role, len(open))
		case m.Role != llm.User && m.Role != llm.Assistant && m.Role != llm.Tool:
			return fmt.Errorf("%w: message %d has the role %q", ErrUnsound, i+1, m.Role)
		case m.Role != llm.Assistant && len(m.Calls) > 0, m.Role != llm.Tool && len(m.Results) > 0:
			return fmt.Errorf("%w: message %d, of role %q, has %d calls and %d results", ErrUnsound, i+1, m.Role, len(m.Calls), len(m.Results))
		}
		if len(open) != len(m.Results) || !slices.EqualFunc(open, m.Results, func(c llm.ToolCall, r llm.ToolResult) bool { return c.ID == r.CallID }) {
			return fmt.Errorf("%w: message %d does not have the results of the calls before it", ErrUnsound, i+1)
		}
		open = m.Calls
	}
	if len(open) > 0 {
		return fmt.Errorf("%w: the last %d calls have no results", ErrUnsound, len(open))
	}
	return nil
}

// Transcript is a copy of the history: of the exchanges that ended.
func (c *Conversation) Transcript() []llm.Message {
	c.mu.Lock()
	messages := c.history.messages
	c.mu.Unlock()
	return copied(messages)
}

// Replace begins a new session with another history; see Config.NewSession. The exchange in flight
// ends in the old one, and is not remembered; the next begins in the new one. ErrUnsound changes
// nothing.
func (c *Conversation) Replace(messages []llm.Message) error {
	c.mu.Lock()
	s := c.history.session
	c.mu.Unlock()
	s.Messages = copied(messages)
	s = c.cfg.NewSession(s).withDefaults()
	if err := Sound(s.Messages); err != nil {
		return err
	}
	h := history{session: s, lost: true}
	h.put(copied(s.Messages))
	c.mu.Lock()
	defer c.mu.Unlock()
	h.version = c.history.version + 1
	c.history = h
	return nil
}

// copied is a copy that shares nothing which anybody may write to. Arguments, pictures and thoughts
// are never written to.
func copied(messages []llm.Message) []llm.Message {
	all := slices.Clone(messages)
	for i := range all {
		m := &all[i]
		m.Calls, m.Results, m.Images, m.Thinking = slices.Clone(m.Calls), slices.Clone(m.Results), slices.Clone(m.Images), slices.Clone(m.Thinking)
	}
	return all
}
