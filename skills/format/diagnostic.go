package format

import (
	"fmt"
	"strings"
)

// Severity says what a Diagnostic means for the skill.
type Severity string

// The severities. Only an Error keeps a skill out of the catalog.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Note    Severity = "note"
)

// Code names a kind of deviation; codes are stable, messages are not.
type Code string

// The codes of what can be wrong with a SKILL.md and the place it lies in.
const (
	CodeBOM             Code = "bom"
	CodeEncoding        Code = "encoding"
	CodeNoFrontMatter   Code = "no-frontmatter"
	CodeUnterminated    Code = "unterminated-frontmatter"
	CodeIndentedCloser  Code = "indented-closer"
	CodeEmpty           Code = "empty-frontmatter"
	CodeFrontTooLarge   Code = "frontmatter-too-large"
	CodeFileTooLarge    Code = "file-too-large"
	CodeYAML            Code = "yaml"
	CodeYAMLRepaired    Code = "yaml-repaired"
	CodeYAMLFeature     Code = "yaml-feature"
	CodeNotMapping      Code = "not-a-mapping"
	CodeDuplicateKey    Code = "duplicate-key"
	CodeKeyType         Code = "key-type"
	CodeUnknownField    Code = "unknown-field"  // strict: one for each
	CodeUnknownFields   Code = "unknown-fields" // standard: one for all
	CodeNameMissing     Code = "name-missing"
	CodeNameType        Code = "name-type"
	CodeNameFromDir     Code = "name-from-dir"
	CodeNameCase        Code = "name-not-lowercase"
	CodeNameBadChar     Code = "name-bad-char"
	CodeNameNotASCII    Code = "name-not-ascii"
	CodeNameEdgeHyphen  Code = "name-edge-hyphen"
	CodeNameTwoHyphens  Code = "name-double-hyphen"
	CodeNameTooLong     Code = "name-too-long"
	CodeNameMismatch    Code = "name-dir-mismatch"
	CodeNoDescription   Code = "description-missing"
	CodeDescriptionType Code = "description-type"
	CodeDescriptionLong Code = "description-too-long"
	CodeLicenseType     Code = "license-type"
	CodeCompatLength    Code = "compatibility-length"
	CodeCompatType      Code = "compatibility-type"
	CodeMetadataType    Code = "metadata-type"
	CodeMetadataValue   Code = "metadata-value"
	CodeFlagValue       Code = "flag-value"
	CodeToolsType       Code = "allowed-tools-type"
	CodeToolsList       Code = "list"
	CodeToolsComma      Code = "comma"
	CodeToolsUnbalanced Code = "tools-unbalanced"
	CodeCommaInBash     Code = "comma-in-bash"
	CodeGrantRefused    Code = "grant-refused"
	CodeNoDirectory     Code = "directory-not-found"
	CodeNoFile          Code = "file-not-found"
	CodeFileNameCase    Code = "file-name-case"
	CodeNotRegular      Code = "not-regular"
	CodeEscape          Code = "escape"
	CodeFileRead        Code = "file-read"
	CodeScanLimit       Code = "scan-limit"
	CodeBrokenLink      Code = "broken-link"
	CodeLinkRefused     Code = "link-not-followed"
	CodeDuplicateName   Code = "duplicate-name"
)

// Diagnostic is one deviation from the format.
type Diagnostic struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	Field    string   `json:"field"` // the front matter field; "" when it is about none
	Line     int      `json:"line"`  // in the file, from 1; 0 when it is about none
	Message  string   `json:"message"`
}

func (d Diagnostic) String() string {
	var b strings.Builder
	if d.Line > 0 {
		fmt.Fprintf(&b, "line %d: ", d.Line)
	}
	fmt.Fprintf(&b, "%s: %s [%s]", d.Severity, d.Message, d.Code)
	return b.String()
}

// Failed reports whether ds hold an error.
func Failed(ds []Diagnostic) bool {
	for _, d := range ds {
		if d.Severity == Error {
			return true
		}
	}
	return false
}
