package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"symbio/agent/event"
	"symbio/agent/llm"
	"symbio/agent/session"
	"symbio/internal/security/visible"
)

// Compaction keeps a conversation below the context window of its model. Before each request fit
// estimates its size; from 4/5 of the window on it makes room in two stages. First, older results of
// tools are cut to maxResultCut bytes. If the request is then still over half of the window, the model
// itself sums up all but the most recent quarter (summary.go). Messages of users are kept word for
// word in the summary while their exchange lasts. shrink does the same when the model refuses a
// request as too long that the estimate had let through. The event Compacted reports the sizes.

const (
	// maxResultCut is how many bytes stay of an older result when room is made: enough to see what
	// it was.
	maxResultCut = 600
	// cutSlack is how much longer one has to be for that to be worth it.
	cutSlack = 300
)

// full, aim and recent are shares of the window, in tokens: compaction begins above full, cuts down to
// aim, and leaves the last recent tokens as they are. The fifth above full is for the answer and for
// the error of the estimate.
func (c *Conversation) full() int   { return c.Window() / 5 * 4 }
func (c *Conversation) aim() int    { return c.Window() / 2 }
func (c *Conversation) recent() int { return c.Window() / 4 }

// fit makes room if the request is about to fill the context. When that did not help much the last
// time, it waits until there is more to gain.
func (x *exchange) fit() error {
	c := x.c
	size := x.draft.size(x.prompt.size)
	if size <= c.full() || x.draft.fitted > 0 && size < x.draft.fitted+c.Window()/8 {
		return nil
	}
	_, err := x.compact()
	return err
}

// shrink makes room after the model has found a request too long that seemed to fit: it takes less
// than was assumed. The error says that there is nothing to gain.
func (x *exchange) shrink() error {
	x.c.window.Store(int64(min(x.c.Window(), x.draft.size(x.prompt.size)/5*4)))
	gained, err := x.compact()
	if err == nil && !gained {
		err = errors.New("there is nothing in it that could be left out")
	}
	return err
}

// compaction says how room was made in the model's context.
type compaction struct {
	event.Compaction
	usage llm.Usage // of the summary
	err   error     // why the model did not sum up; nil = it did, or there was no need
}

// event returns what is reported of a compaction.
func (c compaction) event() event.Event {
	e := event.Event{Type: event.TypeCompacted, Text: visible.Plural(c.Cut, "result") + " of tools cut"}
	if c.Summed > 0 {
		e.Text += ", " + visible.Plural(c.Summed, "message") + " summed up"
	}
	if c.usage != (llm.Usage{}) {
		c.Usage = &c.usage
	}
	if c.err != nil {
		e.Why = "the model did not sum up: " + c.err.Error()
	}
	e.Part = c.Compaction
	return e
}

// compact cuts the results of tools, and if that is not enough has the model sum up the older part.
// It reports whether there is less now.
func (x *exchange) compact() (bool, error) {
	c := x.c
	var done compaction
	done.Turn, done.Total = int(x.turn.Load()), float64(x.draft.size(x.prompt.size))
	messages := x.draft.messages
	recent, began := c.recent(), &x.draft.began
	if x.idle { // a person wants room, however much there is
		recent, began = min(recent, sum(messages)/4), new(-1)
	}
	from := firstRecent(messages, recent)
	cut, n := cutResults(messages, 0, from, maxResultCut)
	done.Cut = n
	if x.idle && from > 1 || x.prompt.size+sum(cut) > c.aim() && sum(cut[:from]) > c.Window()/8 {
		text, err := x.summary(cut[:from], &done)
		if err != nil {
			return false, err
		}
		cut, done.Summed = x.draft.sumUp(text, cut, from, c.recent()*bytesPerToken), from
	}
	if x.prompt.size+sum(cut) > c.full() { // the latest results alone are too much
		more := 0
		cut, more = cutResults(cut, 0, len(cut), c.recent()*bytesPerToken/max(1, lastResults(cut)))
		done.Cut += more
	}
	x.draft.fitted = x.prompt.size + sum(cut)
	if done.Cut == 0 && done.Summed == 0 {
		return false, nil
	}
	x.draft.put(cut)
	// the Commit before the next request reports the error
	_ = x.c.record.add(func() session.Entry { return session.Entry{Kind: session.Compaction, Messages: cut, Began: *began} })
	c.cfg.OnLost(true)
	if err := x.instruct(); err != nil {
		return false, err
	}
	x.prompt.measure()
	x.draft.fitted = x.draft.size(x.prompt.size)
	done.Done = float64(x.draft.fitted)
	x.c.cfg.Watch(x.ctx, done.event())
	return true, nil
}

// Compact makes room now, as before a request that nearly fills the context, but also in a short
// history: all but the last quarter of it is summed up. It reports whether there is less now. It waits for its
// turn like Send; Interrupt ends it. The error is ErrBusy if too many wait or if an exchange of the past can go on by
// Resume, or comes from ctx, Config.System or of the record.
func (c *Conversation) Compact(ctx context.Context) (gained bool, err error) {
	if err := c.acquire(ctx); err != nil {
		return false, err
	}
	defer c.release()
	if c.CanResume() {
		return false, fmt.Errorf("an interrupted exchange can go on: %w", ErrBusy)
	}
	x := &exchange{c: c, idle: true}
	x.open(ctx)
	defer x.close()
	c.mu.Lock()
	x.takeHistory()
	c.mu.Unlock()
	if err = x.instruct(); err == nil {
		x.prompt.tools = x.draft.session.Tools.Specs()
		x.prompt.measure()
		c.updateWindow()
		gained, err = x.compact()
	}
	if err != nil && x.ctx.Err() != nil {
		err = context.Cause(x.ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if gained && c.history.version == x.draft.version {
		x.draft.lost, c.history, x.kept = false, x.draft.history, true
	} else {
		c.history.lost = c.history.lost || x.draft.lost
	}
	return gained, err
}

// firstRecent returns the index from which on the messages have at most most tokens together. A call
// and its results stay together, and the last message is always included, however long it is.
func firstRecent(messages []llm.Message, most int) int {
	i, all := len(messages), 0
	for i > 0 {
		if all += tokens(messages[i-1]); all > most && i < len(messages) {
			break
		}
		i--
	}
	for i > 0 && messages[i].Role == llm.Tool {
		i--
	}
	return i
}

// cutResults returns a copy of messages in which each result of messages[from:to] has at most most
// bytes, and how many results it cut. The given messages are not changed, because requests under way
// refer to them.
func cutResults(messages []llm.Message, from, to, most int) (cut []llm.Message, n int) {
	cut = slices.Clone(messages)
	for i := from; i < to; i++ {
		own := false
		for j, r := range cut[i].Results {
			if len(r.Text) <= most+cutSlack && len(r.Images) == 0 {
				continue
			}
			if !own {
				cut[i].Results, own = slices.Clone(cut[i].Results), true
			}
			r.Text, r.Images = shorter(r, most), nil
			cut[i].Results[j] = r
			n++
		}
	}
	return cut, n
}

// shorter returns the first most bytes of a result, with a note to the model how to get the rest.
func shorter(r llm.ToolResult, most int) string {
	text := visible.Prefix(r.Text, most)
	if missing := len(r.Text) - len(text); missing > 0 {
		text += fmt.Sprintf("\n[%d bytes of this result were cut out to make room; call the tool again if you need them.]", missing)
	}
	if len(r.Images) > 0 {
		text += fmt.Sprintf("\n[It came with %d images, which were cut out to make room.]", len(r.Images))
	}
	return text
}

// lastResults returns the number of results in the last message that has results; 0 if none has.
func lastResults(messages []llm.Message) int {
	for _, m := range slices.Backward(messages) {
		if len(m.Results) > 0 {
			return len(m.Results)
		}
	}
	return 0
}

func sum(messages []llm.Message) (all int) {
	for _, m := range messages {
		all += tokens(m)
	}
	return all
}

// sumUp returns messages with a summary in the place of those before from, and moves began. The question of this exchange
// stays there word for word, up to maxWords bytes, as far as it is not among the messages that stay.
func (d *draft) sumUp(summary string, messages []llm.Message, from, maxWords int) []llm.Message {
	first := llm.Message{Role: llm.User, Text: summaryHead + strings.TrimSpace(summary)}
	rest := messages[from:]
	if d.began < from {
		first.Text += "\n\n" + wordsHead + visible.Prefix(strings.Join(gone(d.words, rest), "\n\n"), maxWords)
		first.Images = messages[d.began].Images
		d.began = 0
	} else {
		d.began -= from - 1
	}
	if rest[0].Role == llm.User { // two in a row is more than some servers take
		first.Text += "\n\n" + latestHead + rest[0].Text
		first.Images = append(slices.Clip(first.Images), rest[0].Images...)
		rest = rest[1:]
		d.began = max(0, d.began-1)
	}
	return append([]llm.Message{first}, rest...)
}

const (
	summaryHead = "[This conversation became too long to be kept whole. Its older part, summed up:]\n"
	wordsHead   = "[What you were asked, and are working on, word for word:]\n"
	latestHead  = "[What was said then, word for word:]\n"
)

// gone returns the words of an exchange that are not among the messages that stay.
func gone(words []string, stay []llm.Message) []string {
	n := len(words)
	for _, m := range stay {
		if m.Role == llm.User {
			n--
		}
	}
	return words[:max(n, 0)]
}
