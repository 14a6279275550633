package format

import "slices"

// Severity is the effect of a Diagnostic on the skill.
type Severity string

// The severities. Only an Error keeps a skill out of the catalog.
const (
	// Error keeps the skill out of the catalog. Warning and Note do not.
	Error Severity = "error"
	// Warning is a deviation that an author should repair.
	Warning Severity = "warning"
	// Note is information, such as a form that is accepted although the specification has another.
	Note Severity = "note"
)

// Code identifies a kind of deviation. Programs may depend on codes; they are stable. Messages are
// not.
type Code string

// The codes of faults of a SKILL.md and the place it lies in.
const (
	// CodeBOM: the file starts with a byte order mark, which is ignored.
	CodeBOM Code = "bom"
	// CodeEncoding: the file is not UTF-8.
	CodeEncoding Code = "encoding"
	// CodeNoFrontMatter: the first line is not ---.
	CodeNoFrontMatter Code = "no-frontmatter"
	// CodeUnterminated: no line --- ends the front matter.
	CodeUnterminated Code = "unterminated-frontmatter"
	// CodeIndentedCloser: the closing --- is indented.
	CodeIndentedCloser Code = "indented-closer"
	// CodeEmpty: the front matter has no fields.
	CodeEmpty Code = "empty-frontmatter"
	// CodeFrontTooLarge: the front matter is over 64 KiB.
	CodeFrontTooLarge Code = "frontmatter-too-large"
	// CodeFileTooLarge: the file is over 1 MiB.
	CodeFileTooLarge Code = "file-too-large"
	// CodeYAML: the front matter is not YAML.
	CodeYAML Code = "yaml"
	// CodeYAMLRepaired: a value that is not YAML was read as plain text.
	CodeYAMLRepaired Code = "yaml-repaired"
	// CodeYAMLComment: YAML takes the end of a description for a comment.
	CodeYAMLComment Code = "yaml-comment"
	// CodeYAMLFeature: an anchor, alias, merge key or tag, which are refused.
	CodeYAMLFeature Code = "yaml-feature"
	// CodeNotMapping: the front matter is YAML, but not a map of fields.
	CodeNotMapping Code = "not-a-mapping"
	// CodeDuplicateKey: a field or key occurs twice.
	CodeDuplicateKey Code = "duplicate-key"
	// CodeKeyType: a key is not text.
	CodeKeyType Code = "key-type"
	// CodeUnknownField: strict: a field that the specification does not define; one for each.
	CodeUnknownField Code = "unknown-field"
	// CodeUnknownFields: standard: fields that the specification does not define; one for all.
	CodeUnknownFields Code = "unknown-fields"
	// CodeNameMissing: there is no name.
	CodeNameMissing Code = "name-missing"
	// CodeNameType: the name is a list or a map.
	CodeNameType Code = "name-type"
	// CodeNameFromDir: lenient: the name is missing, and the directory's is used.
	CodeNameFromDir Code = "name-from-dir"
	// CodeNameCase: the name has upper-case letters.
	CodeNameCase Code = "name-not-lowercase"
	// CodeNameBadChar: the name has characters that are not allowed.
	CodeNameBadChar Code = "name-bad-char"
	// CodeNameNotASCII: the name has letters or digits beyond ASCII.
	CodeNameNotASCII Code = "name-not-ascii"
	// CodeNameEdgeHyphen: the name begins or ends with a hyphen.
	CodeNameEdgeHyphen Code = "name-edge-hyphen"
	// CodeNameTwoHyphens: the name has two hyphens in a row.
	CodeNameTwoHyphens Code = "name-double-hyphen"
	// CodeNameTooLong: the name is over 64 characters.
	CodeNameTooLong Code = "name-too-long"
	// CodeNameMismatch: the name differs from the directory's.
	CodeNameMismatch Code = "name-dir-mismatch"
	// CodeNoDescription: there is no description, so a model cannot know when to use the skill.
	CodeNoDescription Code = "description-missing"
	// CodeDescriptionType: the description is a list or a map.
	CodeDescriptionType Code = "description-type"
	// CodeDescriptionLong: the description is over 1024 characters.
	CodeDescriptionLong Code = "description-too-long"
	// CodeLicenseType: the license is a list or a map.
	CodeLicenseType Code = "license-type"
	// CodeCompatLength: compatibility is empty or over 500 characters.
	CodeCompatLength Code = "compatibility-length"
	// CodeCompatType: compatibility is a list or a map.
	CodeCompatType Code = "compatibility-type"
	// CodeMetadataType: metadata is not a map.
	CodeMetadataType Code = "metadata-type"
	// CodeMetadataValue: a value of metadata is not text.
	CodeMetadataValue Code = "metadata-value"
	// CodeFlagValue: a flag is neither true nor false, and counts as true.
	CodeFlagValue Code = "flag-value"
	// CodeToolsType: allowed-tools is neither text nor a list of texts.
	CodeToolsType Code = "allowed-tools-type"
	// CodeToolsList: allowed-tools is a list, which the specification does not have.
	CodeToolsList Code = "list"
	// CodeToolsComma: strict: commas separate the rules.
	CodeToolsComma Code = "comma"
	// CodeToolsUnbalanced: a parenthesis is not closed, so nothing is granted.
	CodeToolsUnbalanced Code = "tools-unbalanced"
	// CodeCommaInBash: one rule was probably meant as several.
	CodeCommaInBash Code = "comma-in-bash"
	// CodeGrantRefused: a rule that no skill may grant.
	CodeGrantRefused Code = "grant-refused"
	// CodeVersion: a version that is not as semver.org says.
	CodeVersion Code = "version"
	// CodeListEntry: an entry of triggers, depends or toolsets that is no text, too long or too many.
	CodeListEntry Code = "list-entry"
	// CodePattern: a pattern of triggers that is not RE2 or beyond a limit.
	CodePattern Code = "pattern"
	// CodeDependency: an entry of depends that cannot be read.
	CodeDependency Code = "dependency"
	// CodeToolset: the configuration has no toolset of that name.
	CodeToolset Code = "toolset-unknown"
	// CodeDependsMissing: no skill has the name of a dependency.
	CodeDependsMissing Code = "depends-missing"
	// CodeDependsVersion: no skill of that name has a version that a dependency allows.
	CodeDependsVersion Code = "depends-version"
	// CodeDependsCycle: a skill depends on itself, through others or not.
	CodeDependsCycle Code = "depends-cycle"
	// CodeNoDirectory: the skill's directory does not exist or cannot be opened.
	CodeNoDirectory Code = "directory-not-found"
	// CodeNoFile: the directory has no SKILL.md.
	CodeNoFile Code = "file-not-found"
	// CodeFileNameCase: the file is called skill.md or similar, and no scan finds it.
	CodeFileNameCase Code = "file-name-case"
	// CodeLevel: level lenient would take the skill.
	CodeLevel Code = "level"
	// CodeNotRegular: SKILL.md is a directory, pipe or device.
	CodeNotRegular Code = "not-regular"
	// CodeEscape: SKILL.md is a link that leads out of the directory.
	CodeEscape Code = "escape"
	// CodeFileRead: the file or directory cannot be read.
	CodeFileRead Code = "file-read"
	// CodeScanLimit: a limit ended the search of a root.
	CodeScanLimit Code = "scan-limit"
	// CodeBrokenLink: a link leads nowhere.
	CodeBrokenLink Code = "broken-link"
	// CodeLinkRefused: a link leads to a directory above or out of the project.
	CodeLinkRefused Code = "link-not-followed"
	// CodeDuplicateName: an earlier skill has the same name.
	CodeDuplicateName Code = "duplicate-name"
)

// The codes of facts that an author should know of a skill that can be loaded. Only a check for authors
// reports them.
const (
	// CodeForeignField: a field of another agent program that has no effect here.
	CodeForeignField Code = "foreign-field"
	// CodeVague: the description is too short, or does not say when to use the skill.
	CodeVague Code = "description-vague"
	// CodeUnknownTool: allowed-tools has a rule for a tool that does not exist.
	CodeUnknownTool Code = "unknown-tool"
	// CodeBodyLong: the instructions are over 5,000 tokens.
	CodeBodyLong Code = "body-too-long"
	// CodeFileMissing: the instructions name a file that does not exist.
	CodeFileMissing Code = "file-missing"
	// CodeNotExecutable: a script has no executable bit.
	CodeNotExecutable Code = "script-not-executable"
	// CodeNoInterpreter: a script does not begin with #!.
	CodeNoInterpreter Code = "script-without-interpreter"
)

// Diagnostic is one deviation from the format.
type Diagnostic struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Field    string   `json:"field"` // the front matter field; "" when it is about none
	Line     int      `json:"line"`  // in the file, from 1; 0 when it is about none
	Message  string   `json:"message"`
}

// Failed reports whether ds has an error, so that the skill cannot be used.
func Failed(ds []Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}
