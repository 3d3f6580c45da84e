// payloads are texts that would run a script if a screen used them as HTML or as an address. Each calls executed.
const call = "window.executed()";

export const payloads = [
  `<script>${call}</script>`, `"><script>${call}</script>`, `</title><script>${call}</script>`, `</textarea><script>${call}</script>`, `<scr<script>ipt>${call}</scr</script>ipt>`,
  `<img src=x onerror=${call}>`, `<img src=x onerror="${call}">`, `"><img src=x onerror=${call}>`, `<img/src=x/onerror=${call}>`, `<IMG SRC=x OnErRoR=${call}>`, `<img src=x:x onerror=${call}//`,
  `<svg onload=${call}>`, `<svg/onload=${call}>`, `<svg><script>${call}</script></svg>`, `<svg><animate onbegin=${call} attributeName=x dur=1s>`, `<svg><a xlink:href="javascript:${call}"><text>x</text></a></svg>`,
  `<math><mtext><img src=x onerror=${call}></mtext></math>`, `<body onload=${call}>`, `<iframe src="javascript:${call}"></iframe>`, `<iframe srcdoc="<script>parent.executed()</script>"></iframe>`,
  `<object data="javascript:${call}"></object>`, `<embed src="javascript:${call}">`, `<video><source onerror=${call}></video>`, `<audio src=x onerror=${call}>`, `<input autofocus onfocus=${call}>`,
  `<details open ontoggle=${call}>`, `<marquee onstart=${call}>x</marquee>`, `<select autofocus onfocus=${call}>`, `<style>@import "javascript:${call}"</style>`, `<link rel=stylesheet href="javascript:${call}">`,
  `<base href="javascript:${call}//">`, `<form action="javascript:${call}"><button>x</button></form>`, `<a href="javascript:${call}">x</a>`, `javascript:${call}`, `JaVaScRiPt:${call}`, ` javascript:${call}`,
  `java\tscript:${call}`, `data:text/html,<script>parent.executed()</script>`, `{{constructor.constructor('${call}')()}}`, `\${${call}}`, `'-${call}-'`, `\\u003cscript\\u003e${call}\\u003c/script\\u003e`,
];
