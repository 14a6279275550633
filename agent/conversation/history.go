package conversation

import (
	"fmt"
	"slices"

	"symbio/agent/llm"
	"symbio/agent/session"
)

// history holds the messages of a conversation and their size. It is a value: each exchange appends to a copy
// of its own. Copies share one array of messages, so only the newest may be appended to; see clip.
type history struct {
	// session has the model and the tools that continue the messages. Its field Messages is not used.
	session  Session
	messages []llm.Message
	// whole is the estimated size of all messages, in tokens. counted is the size that the model reported
	// last, prompt and tools included; 0 if it never did. since is the estimated size of the messages
	// added after that report.
	whole, counted, since int
	// broken is set when the last exchange was interrupted. The next message then begins with brokenNote.
	broken bool
	// version counts the calls of Replace, so that an exchange that began before one is not kept after it.
	version int
	// pictures is set when a message has images.
	pictures bool
	// lost is set when messages of earlier exchanges are gone and Config.OnLost was not called yet.
	lost bool
}

// brokenNote tells the model that the exchange before was interrupted.
const brokenNote = "[The last exchange was interrupted before its end; what was being done then may be half done.]"

// clip removes the spare capacity of the messages, so that the next append copies them: a request may still
// refer to the array behind them.
func (h *history) clip() { h.messages = slices.Clip(h.messages) }

func (h *history) add(m llm.Message) {
	h.messages = append(h.messages, m)
	h.grow(tokens(m))
	h.pictures = h.pictures || shows(m)
}

// shows reports whether a message or one of its results has images.
func shows(m llm.Message) bool {
	return len(m.Images) > 0 || slices.ContainsFunc(m.Results, func(r llm.ToolResult) bool { return len(r.Images) > 0 })
}

// shown returns the messages for a request. Of the images it has the latest that fit into llm.MaxImages and
// llm.MaxImageBytes.
func (h *history) shown() []llm.Message {
	if !h.pictures {
		return h.messages
	}
	return llm.FitImages(h.messages, llm.MaxImages, llm.MaxImageBytes)
}

// grow changes the estimated size by a number of tokens, which may be negative.
func (h *history) grow(by int) {
	h.whole += by
	h.since += by
}

// draft is a history to which an exchange appends its own messages. It is a copy of the conversation's.
type draft struct {
	history
	// began is the index from which on the messages are the exchange's own.
	began int
	// words are the texts of the user in this exchange, which compaction keeps word for word.
	words []string
	// fitted is the size after the last compaction, in tokens; 0 if there was none.
	fitted int
}

// say adds a user's text and images. If the last message is the user's, too, it appends to that one,
// because providers refuse two user messages in a row.
func (d *draft) say(text string, images ...llm.Image) {
	n := len(d.messages)
	if n == 0 || d.messages[n-1].Role != llm.User {
		d.words = append(d.words, text)
		d.add(llm.Message{Role: llm.User, Text: text, Images: images})
		return
	}
	d.words[len(d.words)-1] += "\n\n" + text
	m := &d.messages[n-1]
	before := tokens(*m)
	m.Text, m.Images = m.Text+"\n\n"+text, append(slices.Clip(m.Images), images...)
	d.pictures = d.pictures || shows(*m)
	d.grow(tokens(*m) - before)
}

// lastWhole returns how many messages stay if the exchange has no
// end: without a text at the end that the model did not answer, because providers refuse two user messages
// in a row; without the whole exchange if the model has answered nothing.
func (d *draft) lastWhole() int {
	n := len(d.messages)
	if n > 0 && d.messages[n-1].Role == llm.User {
		n--
	}
	if n <= d.began+1 {
		return d.began
	}
	return n
}

// count stores the size that the model reported for a request and its answer, which is the last message.
// prompt is the estimated size of system prompt and tools. The report is clamped to between half and twice
// the estimate, because some servers leave out tokens that they had in a cache.
func (h *history) count(u llm.Usage, prompt int) {
	if u.Input <= 0 {
		return
	}
	all := prompt + h.whole
	h.counted, h.since = min(max(u.Input+u.Output, all/2), all*2), 0
}

// size returns the estimated size of a request with these messages, in tokens.
func (h *history) size(prompt int) int {
	if h.counted == 0 {
		return prompt + h.whole
	}
	return h.counted + h.since
}

// put replaces the messages and estimates their size anew.
func (h *history) put(messages []llm.Message) {
	h.messages, h.whole, h.counted, h.since = messages, 0, 0, 0
	h.pictures = slices.ContainsFunc(messages, shows)
	for _, m := range messages {
		h.whole += tokens(m)
	}
}

const (
	// bytesPerToken is on the safe side for most languages: a token has four bytes of English, three of
	// Japanese, and fewer of code.
	bytesPerToken = 3
	// perMessage is the overhead of a message in tokens, perImage the size of a usual image.
	perMessage = 8
	perImage   = 1600
)

// textBytes returns the bytes of text in a message, with the names, ids and arguments of its calls.
func textBytes(m llm.Message) int {
	bytes := len(m.Text)
	for _, t := range m.Thinking {
		bytes += len(t.Text) + len(t.Signature) + len(t.Sealed) + len(t.Raw)
	}
	for _, c := range m.Calls {
		bytes += len(c.ID) + len(c.Name) + len(c.Args)
	}
	for _, r := range m.Results {
		bytes += len(r.CallID) + len(r.Name) + len(r.Text)
	}
	return bytes
}

// EstimateTokens estimates the size of a text for a model, on the safe side.
func EstimateTokens(text string) int { return len(text) / bytesPerToken }

// tokens estimates the size of a message.
func tokens(m llm.Message) int {
	bytes, images := textBytes(m)+perMessage*(len(m.Calls)+len(m.Results)), len(m.Images)
	for _, r := range m.Results {
		images += len(r.Images)
	}
	return bytes/bytesPerToken + images*perImage + perMessage
}

// Sound checks that models accept a history: it begins with a user message, and each call has exactly one
// result, in the message after it. Otherwise the error wraps ErrUnsound and names the message.
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

// Transcript returns a copy of the history. It has the exchanges that have ended, not the current one.
func (c *Conversation) Transcript() []llm.Message {
	c.mu.Lock()
	messages := c.history.messages
	c.mu.Unlock()
	return copied(messages)
}

// Current returns a copy of the history, and during an exchange also of its messages with which the model was
// asked last: the text that began it, and the calls that have returned.
func (c *Conversation) Current() []llm.Message {
	c.mu.Lock()
	messages := c.history.messages
	if c.live != nil && len(c.last.Messages) > len(messages) { // else the last request is of an exchange before
		messages = c.last.Messages
	}
	c.mu.Unlock()
	return copied(messages)
}

// Replace begins a new session with another history; see Config.NewSession. The current exchange ends in the
// old session and is not kept. The next one begins in the new session. If the messages are not Sound, the
// error wraps ErrUnsound and nothing changes. The change is recorded first; the error comes from the record. It does
// not wait for the current exchange.
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
	c.mu.Lock() // also for the record; see recordBegin
	defer c.mu.Unlock()
	if err := c.record.commit(session.Entry{Kind: session.Compaction, Messages: s.Messages, Began: -1}); err != nil {
		return err
	}
	h.version = c.history.version + 1
	c.history, c.unfinished, c.damage = h, nil, nil
	return nil
}

// Clear begins a session without messages, as Replace does, but records nothing: the caller has begun a
// new record. It does not wait for the current exchange.
func (c *Conversation) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history, c.unfinished = history{session: c.history.session, lost: true, version: c.history.version + 1}, nil
}

// copied returns a copy that the caller may change. It shares the bytes of arguments, images and thoughts,
// which are never changed in place.
func copied(messages []llm.Message) []llm.Message {
	all := slices.Clone(messages)
	for i := range all {
		m := &all[i]
		m.Calls, m.Results, m.Images, m.Thinking = slices.Clone(m.Calls), slices.Clone(m.Results), slices.Clone(m.Images), slices.Clone(m.Thinking)
	}
	return all
}
