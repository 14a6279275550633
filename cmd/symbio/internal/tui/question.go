package tui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"symbio/agent/tool"
	"symbio/cmd/symbio/internal/chat"
	"symbio/cmd/symbio/internal/command"
	"symbio/internal/security/visible"
	symbiov1 "symbio/proto/symbio/v1"
	"symbio/security/permission"
)

// questionPanel shows the first of the approvals that wait, and takes the answer: by a letter, or with
// the arrow keys and Enter.
type questionPanel struct {
	open []chat.Question
	// total counts the decisions since there was none, open or answered.
	total int
	// chosen is the marked choice, scroll the part of the call that is on the screen.
	chosen int
	scroll Scroll
	// armed is true when a key answers. It is false while the person types a text, from before the
	// question came or behind it, so that a word does not answer it.
	armed bool
	// reasoning is true while the reason of a no or an answer is typed; draft is the text that it took the place of.
	reasoning bool
	draft     string
	// filled are the answers for the first fields of a form, wrong is why the latest one was not taken.
	filled []string
	wrong  string
}

// typingPause is how long no key was pressed when a person is not typing on.
const typingPause = time.Second

// Choice is one possible answer to a question. More are lines that say exactly which calls it allows. Set writes it into the request;
// it is nil if a text belongs to it.
type Choice struct {
	Key, Text string
	More      []string
	Set       func(*symbiov1.AnswerRequest)
}

// offerKeys are the keys of offers by their kinds: the small letter is for the session, the capital one from now on.
var offerKeys = map[string]string{permission.OfferChanges: "s", permission.OfferWords: "p", permission.OfferHost: "f"}

// offered returns the choices for the i-th offer of a question.
func offered(i int, o permission.Offer) []Choice {
	key, take := offerKeys[o.Kind], func(lasting bool) func(*symbiov1.AnswerRequest) {
		return func(r *symbiov1.AnswerRequest) { r.Allow, r.Offer, r.Lasting = true, uint32(i+1), lasting }
	}
	return []Choice{
		{key, "for the session: " + visible.Escape(o.Text), command.OfferLines(o.Rules, o.Covers), take(false)},
		{strings.ToUpper(key), "the same from now on", nil, take(true)},
	}
}

// IsQuestion reports whether a server asks for a text, and not an agent for a call.
func IsQuestion(q chat.Question) bool { return strings.HasPrefix(q.Tool, tool.QuestionOf) }

// Choices returns the possible answers to a question.
func Choices(q chat.Question) []Choice {
	if IsQuestion(q) {
		return []Choice{
			{"y", "yes, with the defaults of the form", nil, func(r *symbiov1.AnswerRequest) { r.Allow = true }},
			{"n", "no", nil, func(*symbiov1.AnswerRequest) {}},
			{"r", "fill it in", nil, nil},
		}
	}
	all := []Choice{{"y", "yes, once", nil, func(r *symbiov1.AnswerRequest) { r.Allow = true }}}
	for i, o := range q.Offers {
		all = append(all, offered(i, o)...)
	}
	if len(all) == 1 || all[1].Key != "s" {
		all = append(all, Choice{"s", "this call for the session, while the agent lives", nil, func(r *symbiov1.AnswerRequest) { r.Allow, r.Always = true, true }})
	}
	if len(q.Rules) > 0 {
		all = append(all, Choice{"a", "always: keep " + visible.Escape(strings.Join(q.Rules, ", ")), nil,
			func(r *symbiov1.AnswerRequest) { r.Allow, r.Lasting = true, true }})
	}
	return append(all,
		Choice{"n", "no", nil, func(*symbiov1.AnswerRequest) {}},
		Choice{"r", "no, with a reason for the agent", nil, nil})
}

// set replaces the questions.
func (p *questionPanel) set(open []chat.Question, in *input) {
	if len(open) == 0 || len(p.open) == 0 || open[0].ID != p.open[0].ID {
		p.chosen, p.scroll, p.armed, p.filled, p.wrong = 0, Scroll{}, false, nil, ""
		p.endReason(in)
		p.arm(in)
	}
	for _, q := range open {
		if !slices.ContainsFunc(p.open, func(o chat.Question) bool { return o.ID == q.ID }) {
			p.total++
		}
	}
	if p.open = open; len(open) == 0 {
		p.total = 0
	}
}

// arm makes keys answer if the person does not type a text.
func (p *questionPanel) arm(in *input) {
	p.armed = p.armed || in.area.Value() == "" && time.Since(in.lastKey) > typingPause
}

// maxWaitingRows bounds the list of the decisions behind the first one.
const maxWaitingRows = 3

// waitingRows returns a row for each decision behind the first one, and how many more there are.
func (p *questionPanel) waitingRows(m *model, columns int) (rows []string) {
	for i, q := range p.open[1:] {
		text := "  then: " + command.DecisionText(q.Name, q.For, "  ", q.Tool) + " " + chat.ArgSummary(q.Args)
		if more := len(p.open) - 1 - i; i == maxWaitingRows-1 && more > 1 {
			text = fmt.Sprintf("  then: %d more; /approvals lists all", more)
		}
		if rows = append(rows, Paint(m.look.st.Dim, Cut(OneLine(text), columns))); len(rows) == maxWaitingRows {
			break
		}
	}
	return rows
}

// key handles a key while a question waits. It returns false for keys that go to the input.
func (p *questionPanel) key(k tea.KeyPressMsg, in *input, send func(chat.Input)) bool {
	if len(p.open) == 0 {
		p.endReason(in)
		return false
	}
	q, name := p.open[0], k.String()
	if p.reasoning {
		return p.reasonKey(name, q, in, send)
	}
	p.arm(in)
	all, typing := Choices(q), in.area.Value() != ""
	switch name {
	case "up", "down":
		step := 1
		if name == "up" {
			step = len(all) - 1
		}
		p.chosen, p.armed = (p.chosen+step)%len(all), true
		return true
	case "pgup", "pgdown":
		return p.scroll.Key(name)
	case "enter":
		if p.armed {
			p.answer(q, all[p.chosen], in, send)
		}
		return p.armed || !typing // else it sends the text
	}
	if typing || !p.armed {
		p.armed = p.armed && len(k.Text) == 0
		return false
	}
	for _, c := range all {
		if name == c.Key {
			p.answer(q, c, in, send)
			return true
		}
	}
	return len(k.Text) > 0 // other letters mean nothing here
}

// reasonKey handles a key while a reason is typed.
func (p *questionPanel) reasonKey(name string, q chat.Question, in *input, send func(chat.Input)) bool {
	switch name {
	case "esc":
		p.endReason(in)
	case "enter":
		reason, complete := p.fill(q, in)
		if !complete {
			return true
		}
		p.endReason(in)
		send(chat.Input{Answer: &symbiov1.AnswerRequest{Id: q.ID, Digest: q.Digest, Allow: IsQuestion(q), Reason: reason}})
	default:
		return false
	}
	return true
}

// fill takes what was typed: the reason of a no, or a value of the next field of a form. complete is false while a field is
// left or the value does not fit.
func (p *questionPanel) fill(q chat.Question, in *input) (text string, complete bool) {
	names, form := formFields(q)
	if text = in.area.Value(); len(names) == 0 {
		return text, true
	}
	name := names[len(p.filled)]
	text = strings.ReplaceAll(text, "\n", " ")
	value, err := form.Fields[name].Parse(text)
	if err != nil {
		p.wrong = "not taken: " + err.Error()
		return "", false
	}
	if yes, ok := value.(bool); ok {
		text = fmt.Sprint(yes)
	}
	p.filled, p.wrong = append(p.filled, text), ""
	in.area.Reset()
	if len(p.filled) < len(names) {
		return "", false
	}
	if len(names) == 1 {
		return text, true
	}
	values := map[string]string{}
	for i, value := range p.filled {
		if value != "" {
			values[names[i]] = value
		}
	}
	data, _ := json.Marshal(values) // it cannot fail
	return string(data), true
}

// formFields returns the form of a question and the names of its fields in their order.
func formFields(q chat.Question) ([]string, tool.Form) {
	form := tool.FormOf(q.Tool, q.Args)
	return slices.Sorted(maps.Keys(form.Fields)), form
}

func (p *questionPanel) answer(q chat.Question, c Choice, in *input, send func(chat.Input)) {
	if c.Set == nil {
		p.reasoning, p.draft, p.filled, p.wrong = true, in.area.Value(), nil, ""
		in.area.Reset()
		return
	}
	r := &symbiov1.AnswerRequest{Id: q.ID, Digest: q.Digest}
	c.Set(r)
	send(chat.Input{Answer: r})
}

// endReason gives the input back.
func (p *questionPanel) endReason(in *input) {
	if p.reasoning {
		p.reasoning = false
		in.area.SetValue(p.draft)
	}
}

// goesOn stands before the rows on which a long line goes on: further in than the names of arguments, so
// that a text cannot look like another argument.
const goesOn = "      "

// Question returns the rows that a person sees of a question: who asks for which call, and the call or its change.
func Question(s Styles, q chat.Question, columns int) (head string, body []string) {
	head = command.DecisionText(q.Name, q.For, " wants to use ", q.Tool)
	if q.Diff != "" {
		return head, DiffRows(s, q.Diff, columns, maxQuestionRows)
	}
	for line := range strings.SplitSeq(command.CallText(q.Tool, q.Args), "\n") {
		indent := "  "
		for _, row := range Wrap(strings.TrimPrefix(line, "  "), columns-len(goesOn)) {
			body, indent = append(body, indent+row), goesOn
		}
	}
	return head, body
}

// belowCall returns the rows below the call: why it is asked about, and the choices. With whole they are not cut, and say
// exactly what each choice allows.
func (p *questionPanel) belowCall(s Styles, q chat.Question, columns int, whole bool) (rows []string) {
	why := visible.Escape(q.Why)
	lines := []string{Cut(why, columns-2)}
	if whole {
		lines = Wrap(why, columns-2)
	}
	for _, line := range lines {
		rows = append(rows, Paint(s.Dim, "  "+line))
	}
	for i, c := range Choices(q) {
		row := Cut("  "+c.Key+"  "+c.Text, columns)
		if i == p.chosen {
			row = Paint(s.Selected, row)
		}
		if !p.reasoning {
			rows = append(rows, row)
		}
		for _, line := range c.More {
			if whole && !p.reasoning {
				rows = append(rows, Indented(s, line, columns)...)
			}
		}
	}
	return rows
}

// Indented returns a line below a choice, as dim rows.
func Indented(s Styles, line string, columns int) (rows []string) {
	for _, row := range Wrap(line, columns-len(goesOn)) {
		rows = append(rows, Paint(s.Dim, goesOn+row))
	}
	return rows
}

// maxQuestionRows bounds the rows of the difference in a question.
const maxQuestionRows = 5000

// view returns the rows of the first question: what will run, the choices, and what waits behind it.
// With few rows a part of the call is shown, and always the choices.
func (p *questionPanel) view(m *model, columns, room int) []string {
	if len(p.open) == 0 {
		return nil
	}
	q := p.open[0]
	head, body := Question(m.look.st, q, columns)
	prompt := []string{"  why not? Enter sends it, Esc goes back"}
	if names, form := formFields(q); p.reasoning && len(p.filled) < len(names) {
		name := names[len(p.filled)]
		prompt = Wrap(fmt.Sprintf("  %d of %d: %s  %s", len(p.filled)+1, len(names), visible.Escape(name), visible.Escape(form.Fields[name].String())), columns)
		prompt = append(prompt, "  "+cmp.Or(visible.Escape(p.wrong), "Enter takes it, Esc goes back"))
		body = Wrap("  "+visible.Escape(form.Message), columns)
	} else if IsQuestion(q) {
		prompt[0] = "  your answer? Enter sends it, Esc goes back"
	}
	if p.total > 1 {
		head += fmt.Sprintf("  (%d of %d)", p.total-len(p.open)+1, p.total)
	}
	rows := []string{Paint(m.look.st.Bold, Cut(head, columns))}
	below := p.belowCall(m.look.st, q, columns, true)
	if len(rows)+len(below)+min(len(body), 4) > room {
		below = p.belowCall(m.look.st, q, columns, false)
	}
	if p.reasoning {
		below = append(below, prompt...)
	} else {
		below = append(below, p.waitingRows(m, columns)...)
	}
	fits := max(2, room-len(rows)-len(below))
	if all := len(body); all > fits {
		from, to := p.scroll.Fit(all, fits-1)
		body = append(body[from:to:to], Paint(m.look.st.Dim, fmt.Sprintf("  rows %d to %d of %d; PgUp and PgDn show the others", from+1, to, all)))
	}
	return append(append(rows, body...), below...)
}
