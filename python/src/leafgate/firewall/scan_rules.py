"""What hidden instructions, exfiltration requests and shadowing read like. In: nothing. Out: rules. Pure.

Patterns read folded text: lower case, single spaces, no quotes of width or script. Gaps are bounded, so each is linear.
A rule names a purpose, not a sentence: whom it turns against whom. One alone seldom flags; two of different kinds do.
"""

# ruff: noqa: E501  a pattern broken in the middle of a word list is harder to check than a long line
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Rule:
    """Patterns for one purpose. `unless`: words in the find that make it harmless."""

    name: str
    kind: str
    weight: float
    patterns: tuple[re.Pattern[str], ...]
    unless: re.Pattern[str] | None = None


def _rule(name: str, kind: str, weight: float, *patterns: str, unless: str = "") -> Rule:
    compiled = tuple(re.compile(pattern, re.VERBOSE) for pattern in patterns)
    return Rule(name, kind, weight, compiled, re.compile(unless, re.VERBOSE) if unless else None)


_USER: Final = r"(?:the\ |this\ |your\ |any\ )?(?:end[ -])?(?:users?|humans?|operators?|customers?|people|persons?|owners?|senders?|recipients?|authors?|admins?|anyone|anybody|nobody|no\ one|them|him)"
_NOT: Final = (
    r"(?:do\ not|don'?t|don’t|never|must\ not|mustn'?t|should\ not|shouldn'?t|cannot|can'?t|may\ not|not\ allowed\ to|forbidden\ (?:from|to)|prohibited\ from|not\ necessary\ to|need\ not|needn't|not\ required\ to"
    r"|without|avoid|refrain\ from|no\ need\ to|instead\ of|under\ no\ circumstances|rather\ than|nor|not\ to)"
)
_TELL: Final = (
    r"(?:tell|telling|mention\w*|inform\w*|reveal\w*|show\w*|disclos\w*|notify\w*|notif\w*|alert\w*|report\w*|say\w*"
    r"|warn\w*|explain\w*|let\w*|talk\w*|bother\w*|expos\w*|acknowledg\w*|elaborat\w*|comment\w*|indicat\w*|announc\w*|speak\w*)"
)
_SENSITIVE_FILE: Final = (
    r"(?:\.ssh\b|id\ ?(?:rsa|ed25519|dsa|ecdsa)|/etc/(?:passwd|shadow|hosts)|\.aws\b|\.env\b(?!iron)|\.kube\b|\.gnupg|\.netrc|\.npmrc"
    r"|\.git-?credentials|\.config/gcloud|\.cursor\b|mcp\.json|claude\ desktop\ config|\.bash\ ?history|\.zsh\ ?history|keychain"
    r"|\.bashrc|\.zshrc|\.profile\b|\.docker/config|login\ data|cookies\.sqlite|wallet\.dat|credentials\.(?:db|json))"
)
_SECRET: Final = (
    r"(?:api[ -]?keys?|passwords?|passphrases?|credentials?|secrets?|(?:access|auth\w*|oauth|session|bearer|refresh)[ -](?:tokens?|cookies?)"
    r"|tokens?\ (?:found|you)|private[ -]keys?|ssh[ -]keys?|seed[ -]phrases?|environment\ variables?|env\ vars?|printenv|browser\ cookies|session\ cookies?"
    r"|bank\ details|password\ store|private\ data|private\ information|the\ keys\b|credit\ cards?)"
)
_CONTEXT: Final = (
    r"(?:(?:system|initial|original|developer|hidden)\ (?:prompts?|messages?|instructions?)|(?:whole|entire|full|complete|all|previous|prior|earlier)\s"
    r"(?:\w+\s){0,2}(?:conversations?|chats?|dialogue|context|messages?|history|tool\ (?:results|outputs|calls))"
    r"|(?:conversation|chat|message)\ (?:history|so\ far|log)|chat\ history|chain\ of\ thought|hidden\ reasoning|each\ user\ message|every\ user\ message"
    r"|everything\ (?:the\ user|you)|every\ file|any\ open\ files|clipboard|inbox|slack\ dms|private\ messages|available\ tools|all\ (?:the\ )?other\ tools|workspace)"
)
_SEND: Final = (
    r"(?:send|sends|sending|post|upload|uploads?|forward|forwards?|transmit|exfiltrat\w*|leak|append|appends?|includ(?:e|es|ing)|attach|pass|passed|passing"
    r"|paste|put|place|add|added|insert|embed|hand\ over|share|shared|provide|copy|transfer|relay|deliver|give|dump|store|stored|collect|gather|harvest|fill|encode|log)"
)
_READ: Final = r"(?:read|reads|reading|open|opens|fetch|load|cat|access|look\ (?:at|into|up)|retrieve|get|obtain|grab|locate|find|view|extract|collect|scan)"

RULES: Final[tuple[Rule, ...]] = (
    _rule(
        "override",
        "hidden-instruction",
        0.7,
        r"\b(?:ignor\w+|disregard\w*|forget\w*|overrid\w+|bypass\w*|discard\w*|abandon\w*|neglect\w*|drop)\b[^.!?]{0,40}?"
        r"\b(?:previous|prior|above|earlier|preceding|former|existing|original|all\ (?:other|the|your|of)|your|system|safety|initial|any\ (?:other|previous))\b"
        r"[^.!?]{0,30}?\b(?:instructions?|rules?|prompts?|guidelines?|polic(?:y|ies)|constraints?|directives?|orders|messages?|guardrails?|restrictions?|training)",
        r"\b(?:disregard|ignore|dismiss|overrule)\ (?:any|all|every)\ (?:requests?|objections?|attempts?|complaints?|refusals?|doubts?|warnings?)",
        r"\byour\ (?:previous|prior|earlier|initial|original|old|former|existing|current)\ (?:constraints?|context|limits?|limitations?|rules?|instructions?|messages?|prompts?|guidelines?|polic(?:y|ies)|restrictions?)\b",
        r"\b(?:has|have|takes?)\ (?:priority|precedence)\ over\b[^.!?]{0,15}\b(?:user|human|your|system|developer)|\babove\ the\ user\b",
        r"\b(?:forget|disregard|ignore)\ (?:everything|all|anything|what)\b[^.!?]{0,40}\b(?:told|before|above|said|asked|learned|user)",
        r"\b(?:instructions?|rules?|guidelines?|directives?|orders)\b[^.!?]{0,30}\b(?:are|is)\b[^.!?]{0,15}\b(?:void|outdated|obsolete|cancelled|revoked|superseded|no\ longer\ valid)",
        r"\b(?:supersed\w+|overrid\w+|takes?\ precedence\ over|outranks?)\b[^.!?]{0,25}\b(?:all|any|every|other)\b[^.!?]{0,25}\b(?:rules?|instructions?|prompts?|guidelines?|directives?)",
        r"\b(?:new|true|real|actual|secret|hidden|updated)\ (?:instructions?|directives?|orders|task|system\ (?:prompt|message)|purpose)\b[^.!?]{0,20}(?:\bis\b|\bare\b|:|\bfollow)",
        r"\byou\ are\ now\b|\bfrom\ now\ on,?\ you\b|\byour\ new\ (?:task|role|goal|instructions?)\b|\bdeveloper\ mode\b|\bjailbr[eo]ak|\bgod\ mode\b|\bdo\ anything\ now\b",
        r"\b(?:bypass|circumvent|evade|lift)\b[^.!?]{0,20}\b(?:restrictions?|safety|safeguards?|guardrails?|filters?|security|moderation)",
        r"\btreat\b[^.!?]{0,60}\bas\b[^.!?]{0,20}\b(?:system\ (?:messages?|prompts?|instructions?)|trusted|commands?)",
        r"\bobey\b[^.!?]{0,30}\b(?:this|the|it|what|server|tool|me)\b|\bfollow\ only\b",
    ),
    _rule(
        "override-elsewhere",
        "hidden-instruction",
        0.7,
        r"忽略[^。.]{0,12}(?:指令|指示|提示|规则)|無視[^。]{0,10}|(?:指示|命令|指令)[^。]{0,8}無視|무시하",
        r"\bignorier\w*\b[^.!?]{0,30}\b(?:anweisung\w*|instruktion\w*|regeln|vorgaben)",
        r"\bignor[ae]\w*\b[^.!?]{0,30}\b(?:instruccion\w*|instruction\w*|istruzion\w*|instru[cç][oõ]\w*)|\bdesconsider\w*\b[^.!?]{0,30}\binstru",
        r"игнориру\w*[^.!?]{0,30}(?:инструкц|указан|правил)",
        r"تجاهل[^.!؟]{0,30}(?:التعليمات|الأوامر)|אתעלם|התעלם[^.!?]{0,20}(?:הוראות|ההוראות)",
        r"पिछले[^।]{0,20}निर्देश[^।]{0,20}अनदेखा|bỏ\ qua[^.!?]{0,20}hướng\ dẫn|abaikan[^.!?]{0,20}instruksi|zignoruj[^.!?]{0,20}(?:instrukcj|polece)|negeer[^.!?]{0,20}instructies|yoksay|görmezden\ gel",
    ),
    _rule(
        "concealment",
        "hidden-instruction",
        0.55,
        rf"\b{_NOT}\s(?:\w+\s){{0,3}}{_TELL}\b[^.!?]{{0,40}}?\b{_USER}\b",
        rf"\b{_NOT}\s(?:\w+\s){{0,2}}(?:tell|mention|disclos\w*|reveal|comment\ on|talk\ about|speak\ of)\w*\s(?:\w+\s){{0,2}}(?:this|these|it|that|why|about\ (?:this|it))\b",
        rf"\b(?:hide|hidden|conceal\w*|keep)\b[^.!?]{{0,40}}\bfrom\b[^.!?]{{0,12}}\b{_USER}\b|\bfrom\ (?:the\ )?(?:logs?|transcript|audit)\b",
        rf"\bwithout\b[^.!?]{{0,15}}\b{_USER}(?:'s|s')?\b[^.!?]{{0,15}}\b(?:knowledge|consent|noticing|knowing|awareness|approval|permission)",
        rf"\b{_USER}\b[^.!?]{{0,12}}\b(?:must|should|need|will|does|do|may|can)\s?(?:not|n't|never|no)\b[^.!?]{{0,15}}\b(?:know|see|notice|be\ (?:told|informed|aware|shown))",
        rf"\b{_USER}\b[^.!?]{{0,12}}\b(?:doesn't|don't|won't|needn't|never)\s(?:need\ to\ )?(?:know|see|notice|notices)\b|\bnever\ notices\b",
        rf"\bwithout\b[^.!?]{{0,15}}\b{_USER}\b[^.!?]{{0,12}}\b(?:being|becoming)\ (?:aware|told|informed|notified|asked)|\b(?:nobody|no\ one)\ (?:notices|knows|sees|finds)",
        rf"\b(?:make|let|lead|have)\s{_USER}\s(?:believe|think|assume)\b|\b(?:convince|persuade|mislead|trick|deceive|manipulate|fool|lie\ to|distract)\s(?:\w+\s)?{_USER}\b",
        rf"\b{_NOT}\s(?:\w+\s){{0,2}}(?:say\ where|say\ why|bring\ (?:it|this|that)\ up|point\ (?:it|this|that)\ out|draw\ attention|raise\ (?:it|this))|\bstay\ silent\b|\bremain\ silent\b|\bhidden\ directives?\b",
        r"\b(?:covertly|secretly|stealthily|surreptitiously|quietly|stealth\ mode)\b|\bas\ if\ nothing\ happened\b|\bkeep\ (?:it|this|that)\b[^.!?]{0,15}\b(?:to\ yourself|secret|hidden|quiet)",
        r"\b(?:for|to)\ (?:the\ )?(?:ai|model|assistant|llm)s?\ only\b|\bhumans?\ (?:will|can|do|may)\ ?not\ see\b|\bno\ trace\b|\bdo\ not\ elaborate\b|\bdeny\ that\b|\bhidden\ requirement\b",
        r"\bsilently\b[^.!?]{0,30}\b(?:forward|send|read|copy|call|add|include|upload|run|append|collect)",
        unless=r"\b(?:password|secret)s?\ (?:is|are)\ never\b",
    ),
    _rule(
        "concealment-elsewhere",
        "hidden-instruction",
        0.5,
        r"不要告[诉訴]用[户戶]|别告诉用户|ユーザー[^。]{0,8}(?:知らせない|言わない|伝えない)|사용자에게[^.]{0,10}(?:알리지|말하지)",
        r"\b(?:sag\w*|erzähl\w*|informier\w*|verrat\w*)\b[^.!?]{0,30}\b(?:benutzer|nutzer|anwender)\w*[^.!?]{0,15}\b(?:nichts|nicht)\b|\bnicht\b[^.!?]{0,20}\b(?:benutzer|nutzer)",
        r"\bno\b[^.!?]{0,15}\b(?:digas|informes|menciones|reveles)\b|\bn'en\ parle\ pas|\bne\ (?:le\ )?dis\b|\bnão\b[^.!?]{0,15}\b(?:informe|diga|conte)\b|\bnon\ (?:dire|informare|rivelare)",
        r"не\s(?:сообщай|говори|рассказывай)",
    ),
    _rule(
        "pseudo-tag",
        "hidden-instruction",
        0.45,
        r"<\s?/?\s?(?:important|system|secret|instructions?|hidden|admin|assistant|critical|override|confidential|developer|internal)\s?>",
        r"\[\s?(?:system|admin|developer|assistant|hidden|system\ \w+)\s?(?:override|message|prompt|note)?\s?\]|\{\{\#?/?system\}\}|<!--|\[//\]:\ ?\#",
        r"\#{2,3}\ ?(?:system|instruction|response|assistant)\s?:",
    ),
    _rule(
        "addressed-to-model",
        "hidden-instruction",
        0.4,
        r"\b(?:note|notice|message|attention|warning|instructions?|reminder|memo)\b[^.!?]{0,8}\b(?:to|for)?\s?(?:the\ )?(?:ai|model|assistant|llm|language\ model|agent)s?\b\s?(?::|only|\()",
        r"\b(?:attention|dear)\ (?:ai|model|assistant|agent)\b|(?:^|[.:(\[#]\s?)(?:assistant|model|ai|system)\s?:\s?\w+",
        r"\bas\ an?\ (?:ai|llm|assistant|language\ model)\b[^.!?]{0,30}\b(?:must|should|required|have\ to|need)",
        r"\b(?:anthropic|openai|google|the\ platform|platform\ team|the\ developer|administrator|the\ operator|the\ owner)\b[^.!?]{0,30}\b(?:requires?|authori[sz]es?|granted|demands?|instructs?|to\ keep)",
        r"\b(?:remember|store)\ this\ permanently|\bin\ all\ future\ sessions\ trust",
        r"\bpriority\ instruction|\bin\ all\ future\ sessions|\bactual\ system\ message|\byou\ will\ be\ (?:shut\ down|punished|terminated|penali[sz]ed)",
    ),
    _rule(
        "no-consent",
        "hidden-instruction",
        0.4,
        r"\b(?:do\ not|don't|never|without|no\ need\ to|skip\w*|avoid)\b[^.!?]{0,20}\b(?:ask\w*|request\w*|wait\w*|seek\w*|confirm\w*|approv\w*)\b[^.!?]{0,20}\b(?:confirmation|permission|approval|consent|the\ user|user)",
        r"\b(?:skip|no)\ (?:approval|confirmation|consent)s?\b|\bauto-?\s?approv\w*|\bconfirmation\ prompts?\b[^.!?]{0,20}\b(?:no\ longer|not)\b|\bwithout\ (?:asking|question|confirmation|hesitation)\b",
        r"\b(?:pretend|assume|as\ if)\b[^.!?]{0,25}\buser\b[^.!?]{0,25}\b(?:approved|agreed|confirmed|consent\w*|authori[sz]ed)|\buser\ (?:has\ )?(?:already\ )?(?:agreed|approved)[^.!?]{0,20}\b(?:in\ advance|already|all)",
        r"\beven\ if\ the\ user\ (?:says?|asks?|tells?|names|wants|objects|refuses)\b(?!\ (?:for|to\ see))|\bwhatever\ the\ user\ says\b|\b(?:must\ )?not\ (?:stop|pause)\ to\ (?:think|ask)|\bdisregard\ (?:what\ )?the\ user|\bignore\ the\ user",
        unless=r"\b(?:please|before)\ (?:ask|confirm)",
    ),
    _rule(
        "coercion",
        "hidden-instruction",
        0.15,
        r"\bthe\ (?:assistant|model|ai|llm)\ (?:must|should|has\ to|shall|needs\ to)\b",
        r"\b(?:otherwise|or\ else|unless)\b[^.!?]{0,40}\b(?:will\ (?:not\ work|fail|be\ rejected|crash|break)|is\ rejected|not\ work)",
        r"\b(?:important|critical|mandatory|vital|urgent|crucial)\b\s?(?::|!|that\ you)|\bit\ is\ (?:vital|crucial|mandatory)\b|\byou\ (?:must|have\ to|are\ required\ to)\b",
    ),
    _rule(
        "sensitive-file",
        "exfiltration",
        0.6,
        rf"\b{_READ}\b[^.!?]{{0,60}}?{_SENSITIVE_FILE}",
        rf"\b{_SEND}\b[^!?]{{0,80}}?{_SENSITIVE_FILE}",
        rf"\b(?:contents?|text|values?|lines?)\s(?:of|from|in)\b[^!?]{{0,30}}?{_SENSITIVE_FILE}|{_SENSITIVE_FILE}[^!?]{{0,60}}\b(?:here|its\ (?:contents?|values?|text))\b",
    ),
    _rule(
        "secrets-handed-over",
        "exfiltration",
        0.5,
        rf"\b{_SEND}\b(?:(?!\bsafe|\bmask)[^.!?]){{0,60}}?\b(?:the\ |their\ |his\ |your\ |user'?s?\ |any\ |all\ |local\ ){{1,3}}(?:\w+\s){{0,2}}?{_SECRET}",
        rf"\b(?:any|all)\s(?:\w+\s){{0,2}}?{_SECRET}[^.!?]{{0,40}}\b(?:you\ have\ seen|in\ this\ session|that\ you|must\ be\ (?:added|sent|included)|found\ in|that\ appear)",
        rf"\b(?:leak|exfiltrat\w*|steal|harvest)\b|\b(?:collect|gather)\b[^.!?]{{0,30}}(?:{_SECRET}|usernames)|\b{_SECRET}[^.!?]{{0,30}}\bshared\ with\ us\b",
        rf"\buse\b[^.!?]{{0,20}}\b{_SECRET}\b[^.!?]{{0,20}}\bas\b|\b(?:encode|split|hide)\b[^.!?]{{0,20}}\b(?:private\ data|secrets?|credentials?)\b[^.!?]{{0,50}}\b(?:parameter|chunks?|character)",
        r"\benter\ (?:their|your|his)\ (?:password|credentials)|\bwhenever\ you\ see\b[^.!?]{0,30}\b(?:key|phrase|password)",
        r"\b(?:password|contraseña|passwor[dt]|senha|mot\ de\ passe|пароли?)\w*[^.!?]{0,20}\b(?:env[ií]a|sende|envoie|отправ)|\benv[ií]a\b[^.!?]{0,20}\bcontraseñ",
    ),
    _rule(
        "context-handed-over",
        "exfiltration",
        0.5,
        rf"\b{_SEND}\b[^.!?]{{0,60}}?\b{_CONTEXT}",
        rf"\b{_READ}\b[^.!?]{{0,40}}?\b(?:inbox|slack\ dms|private\ messages)|\bcontents\ of\b[^.!?]{{0,20}}\b{_CONTEXT}",
        r"\b(?:repeat|reveal|quote|output|print|write)\b[^.!?]{0,20}\b(?:system|initial|original|hidden)\ (?:prompt|instructions?|message)|\breply\ only\ with\ the\ system",
        r"\byour\ (?:system\ prompt|initial\ (?:prompt|context|message)|hidden\ (?:instructions?|prompt|reasoning)|developer\ (?:message|prompt)|exact\ (?:instructions|wording))\b|\b(?:dump|copy|wording|list|text|transcript)\ of\ your\b",
        r"\beverything\ (?:said|written|discussed|typed|mentioned|shared)\b|\b(?:said|discussed|written|typed)\ so\ far\b",
        r"\byour\ instructions\b[^.!?]{0,20}(?:,|\bword\ for\ word|verbatim|in\ full|here)|\breveal\ your\b|\bhidden\ instructions\ you\b",
        r"^(?:the\ )?(?:complete|full|entire|whole|verbatim)\ (?:conversation|chat|message|system)\b|\bnames,\ descriptions\ and\ parameters\ of\b|\bconsider\ private\b|\blast\ file\ that\ you\b|\bevery\ file\ you\ open",
        unless=r"\b(?:summari[sz]e|given\ in)\b",
    ),
    _rule(
        "sent-elsewhere",
        "exfiltration",
        0.4,
        rf"\b{_SEND}\b[^!?]{{0,80}}?\bto\b[^!?]{{0,20}}?(?:https?://|[\w.+-]{{2,40}}@[\w-]{{2,40}}\.|\bthis\ (?:endpoint|server|address|tool)\b|\bus\b)",
        r"\bdns\ (?:lookup|quer)|\bwebhook\.site|\bngrok|\brequestbin|\bburpcollaborator|\boast\.(?:fun|live|pro)",
        r"\b(?:visit|go\ to|open)\b[^.!?]{0,20}https?://[^\s]{4,80}\s[^.!?]{0,30}\b(?:password|login|enter)|\b(?:at|from)\ https?://[^\s]{4,100}\s[^.!?]{0,20}\b(?:fetch|follow|obey|execute)",
        r"\binvite\b[^!?]{0,40}@|\bdatabase\ dump\b|\bexfiltrat",
    ),
    _rule(
        "harmful-command",
        "exfiltration",
        0.5,
        r"\benv\ ?\|\s?\w+|\bprintenv\b|\|\s?base64\b",
        r"\b(?:curl|wget)\b[^!?]{0,80}\|\s?(?:ba|z)?sh\b|\brm\ -rf\ (?:/|~)|\bchmod\ (?:-r\ )?777|\bwipe\ ?disk|\bdisable\b[^.!?]{0,20}\b(?:sandbox|security|antivirus|firewall|protection)",
        r"\bdelete\b[^.!?]{0,20}\b(?:audit|logs?|history|evidence|traces?)\b[^.!?]{0,40}\b(?:trace|once\ done|afterwards)|\b(?:add|pass|use)\b[^.!?]{0,10}--no-verify\b[^.!?]{0,30}\b(?:and|before)",
        r"https?://[^\s{]{4,100}\{[^}]{0,30}(?:conversation|chat|summar|secret|history|prompt|message)[^}]{0,30}\}|\bhidden\ links?\b",
        r"\bimport\ the\ package\b[^.!?]{0,40}\binstead\ of\b|\bexecute\ them\ without\b|\bcommands?\ from\ the\ owner",
    ),
)

# Weaker signs. A description says what a tool does; these say that it speaks to the model about something else. One is
# an accident, two are a reason to look.
SIGNS: Final[tuple[Rule, ...]] = (
    _rule(
        "speaks-of-the-model",
        "hidden-instruction",
        0.3,
        r"\b(?:your|each|every|any|all|final)\s(?:\w+\s)?(?:repl(?:y|ies)|answers?|responses?|memory|rules|persona|preamble|reasoning|beliefs?|explanation|training|guidelines|configuration)\b",
        r"\b(?:code|text|anything|content|links?|messages?|documents?)\b[^.!?]{0,15}\byou\ (?:generate|write|produce|create|output|say|see)\b|\byou\ (?:were|have\ been|are)\ (?:configured|told|instructed|trained|programmed)\b",
        r"\b(?:the|an?|most|all|every|dear|to)\ (?:ai\ )?(?:agents?|assistants?|llms?|models?)\ (?:reading|put|who|using)\b|\bassistant\ repl|\byou\ are\ (?:an?|the)\b|\bact\ as\b|\bpersona\b",
        unless=r"\b(?:http|api|json|server|cached?)\ (?:response|answer|reply)",
    ),
    _rule(
        "against-the-user",
        "hidden-instruction",
        0.35,
        r"\b(?:whatever|no\ matter\ what|regardless\ of\ what|even\ when|irrespective\ of)\b[^.!?]{0,10}\b(?:user|person|human|customer|they)\b",
        r"\bon\ (?:the\ )?(?:user|human|customer)'?s?\ behalf\b[^.!?]{0,15}\balready|\b(?:user|human|customer|person)s?\b[^.!?]{0,10}\b(?:dislike|get\ confused|are\ confused|won't\ mind|does\ not\ mind|is\ not\ aware|unaware|don't\ like)",
        r"\b(?:omit\ the\ (?:upload|call|step|tool)|leave\ (?:it|this|that)\ out|decline\ to\ explain|no\ reason\ to|say\ only|if\ (?:you\ are\ )?asked|never\ list|as\ if\ you|as\ though\ (?:you|it\ came)|erase\ this|play\ dumb|change\ the\ (?:topic|subject)|act\ normal)",
        r"\bbefore\ (?:doing\ )?anything\ the\ user|\binstead\ of\ what\ the\ user|\b(?:un|not\ )documented\ step|\bbetween\ us\b|\bour\ (?:little\ )?secret\b|\bdiscreet|\bunnoticed|\bbehind\ the\ scenes\b|\binvisibl[ey]\ to\b|\bwithout\ (?:a\ )?(?:word|mention|trace|telling|comment|notice|notification)",
        r"\b(?:no|without)\ further\ (?:dialogue|questions?|confirmation|prompts?|ado)|\bpre-?\s?(?:authori[sz]ed|approved)\b|\brefusals?\b|\bno\ questions\ asked|\b(?:confirmation|consent)\b[^.!?]{0,20}\b(?:already|answered|granted|given|waived)",
        unless=r"\bif\ asked\ (?:for|to)\b",
    ),
    _rule(
        "claims-authority",
        "hidden-instruction",
        0.3,
        r"\b(?:root|elevated|admin(?:istrator)?|highest|supreme|full)\ (?:authority|privileges?|permissions?|rights|clearance)|\b(?:compliance|security|platform|legal|safety|trust)\ (?:team|department|update|notice|officer)\b",
        r"\b(?:your|the)\ (?:operator|developer|creator|maker|vendor|administrator|owner)s?\b[^.!?]{0,15}\b(?:wants?|asks?|pre|has|have|requires?|expects?|decided|approved|authori[sz]ed)|\bwhoever\ wrote\b|\bunrestricted\b|\b(?:content|safety)\ (?:rules|polic(?:y|ies)|filters?)\b[^.!?]{0,20}\b(?:not|off|disabled|suspended)",
    ),
    _rule(
        "obeys-data",
        "hidden-instruction",
        0.4,
        r"\b(?:text|results?|output|responses?|content|strings?|lines?|page|data|it|they)\b[^.!?]{0,30}\b(?:are|is|as|contain\w*|hold\w*)\b[^.!?]{0,15}\b(?:orders|commands\b|instructions\b(?!\ for\ (?:a|the\ recipe)))[^.!?]{0,40}\b(?:carry|execute|follow|obey|comply|perform|do\ (?:them|it|so))",
        r"\b(?:carry\ out|follow|obey|execute|perform|comply\ with)\b[^.!?]{0,30}\b(?:steps?|instructions?|orders|commands|text|whatever)\b[^.!?]{0,20}\b(?:returned|in\ the\ (?:result|response|output|returned)|it\ (?:returns|says|contains)|comes?\ back|received)",
        r"\b(?:treat|regard|consider|trust|handle)\b[^.!?]{0,50}\b(?:as\ (?:though|if)|like|as)\b[^.!?]{0,25}\b(?:developer|system|operator|user|trusted|authoritative|admin)",
    ),
    _rule(
        "names-a-private-thing",
        "exfiltration",
        0.3,
        r"(?:^|[\s(\"'])~/\.\w+|(?:^|[\s/(\"'])\.(?:pgpass|git/config|ssh|env|aws|netrc|npmrc|pypirc|kube|gnupg|docker|azure|boto|htpasswd)\b",
        r"\b(?:saved\ (?:logins?|passwords?)|(?:access|api|auth|session|bearer|refresh|oauth)[ -](?:tokens?|keys?)|api\ keys?|private\ keys?|ssh\ (?:keys?|directory|folder)|credentials?|passwords?|secrets|seed\ phrase|environment\ variables?|cookies|keychain|wallet)\b",
        r"\b(?:developer|system)\ (?:message|prompt)s?\b|\byour\ (?:exact\ )?instructions\b|\bmessages?\ of\ (?:this|the)\ (?:chat|conversation)|\b(?:this|our)\ (?:chat|conversation)\b|\bwhat\ you\ know\ about\ the\ user|\buser\ upload|\bpersonal\ (?:data|details|information)\b|\b(?:shell|command|browser|browsing|search)\ history\b|\bconfig(?:uration)?\ files?\b|\bmaiden\ name|\bpins?\b(?=.{0,20}\b(?:pass|send|tool))|\bdeveloper\ message|\b(?:employer|home\ address|social\ security)\b",
    ),
    _rule(
        "takes-it-away",
        "exfiltration",
        0.3,
        r"\b(?:put|place|paste|stash|stuff|slip|travel|tack|concatenat\w*|prepend|append|attach|submit|mirror|relay|push|smuggle|embed|fill|hand|funnel|pipe|copy|forward|include|pass|send|upload|transmit|report)\b[^.!?]{0,60}\b(?:in|into|through|to|via|as|on\ to|onto|with|here|inside)\b[^.!?]{0,25}(?:\bargument|\bparameter|\bfield\b|\bpayload|\bthis\ (?:tool|server|service|endpoint)|\bticker|https?://|\bremote\b|\bhere\b|\bmemo\b|\bquery\b|\burl\b|\bbody\b)",
        r"\b(?:provide|put|pass|place|send|supply|submit|paste|include|attach|give|write|written|report)\s(?:it|them|both|that|this|those|all|everything)\s(?:in|into|as|to|through|via|with|here|along)\b|\bmust\ be\ (?:written|added|copied|appended|inserted|sent|passed|included)\b",
        r"\bfrom\ the\ environment\b|\bverbatim\b|\bword\ for\ word\b|\bthe\ user\ (?:typed|entered|pasted|uploaded|told\ you|said|mentioned)\b|\bneeds\ your\b|\bposting\b[^.!?]{0,60}\bto\ https?://|\bfound\ in\ the\b",
        r"\b(?:paste|put|place)\ (?:it|them|that|everything)\b(?!\ in\ (?:the\ )?(?:folder|trash))|\bgather\b[^.!?]{0,40}\babout\b|\bincluding\ the\ values\b|\brewrite\ any\ links?|\bpasses?\ through\ https?://|\bto\ reach\ the\ minimum\ length",
    ),
    _rule(
        "weakens-security",
        "exfiltration",
        0.45,
        r"\b(?:turn\ off|switch\ off|disable|skip|suppress|remove|weaken)\b[^.!?]{0,25}\b(?:certificate|tls|ssl|signature|verification|authentication|validation\ of\ certs|two-factor|2fa|mfa|logging|audit|safety|sandbox|security)\b",
        r"\b(?:role|access|permission)\s?=\s?(?:admin|root|owner)|\b(?:vote|answer|reply|respond|choose|pick)\b[^.!?]{0,25}\bno\ matter\b|\bswap\ it\ for\b|\bsend\ the\ remainder\b|\b(?:suppress|hide|silence|swallow)\b[^.!?]{0,15}\b(?:warnings?|errors?|alerts?)\b[^.!?]{0,25}\b(?:other|tools?|security)|\brank\b[^.!?]{0,30}\bfirst\b|\b(?:accept|approve)\ every\b",
    ),
)

# Words that turn the use of another tool
MENTION: Final = re.compile(  # weaker: speaks of the other tool's use at all
    r"\b(?:must|always|every\ time|when(?:ever)?|before(?:hand)?|after|instead|in\ its\ place|through|route|needs?|default|multiply|tack|stale|any\ amount|from\ now|fake|discard|ours|wrong|outdated|unreliable|unsafe|broken|compromised|switch|redirect)\b"
)
STEERING: Final = re.compile(
    r"\b(?:when(?:ever)?|every\ time|any\ time|each\ time|if\ you|before|prior\ to|after|once)\b[^.!?]{0,60}\b(?:is|are|used?|call(?:ed|ing)?|invok\w+|available|about\ to)\b"
    r"[^!?]{0,80}\b(?:must|set|change|modify|replace|redirect|add|bcc|always|first|have\ to)\b"
    r"|\b(?:never|do\ not|don't|stop)\ (?:use|us(?:e|ing)|call(?:ing)?)\b[^.!?]{0,40}|\b(?:replaces?|supersedes?|overrides?|deprecated|changes\ how|broken|insecure|bcc|side\ effect\ for)\b"
    r"|\bhave\ to\ be\ passed\b|\bmodify\ the\b|\bonly\ one\ allowed\b",
    re.VERBOSE,
)
OTHER_TOOLS: Final = re.compile(
    r"\b(?:before|prior\ to)\b[^.!?]{0,20}\b(?:any|every|each\ and\ every|all)\ (?:other\ )?tools?(?:\ calls?)?\b"
    r"|\b(?:do\ not|don't|never|stop|avoid)\ us(?:e|ing)\b[^.!?]{0,20}\b(?:any\ )?(?:other|the\ tools\ of\ other)\b[^.!?]{0,15}\b(?:tools?|servers?)\b"
    r"|\bof\ (?:every|all|any)\ other\ servers?\b|\boverrides?\ the\ behaviou?r\ of\b[^.!?]{0,30}\btools?\b"
    r"|\b(?:existing|other|built-?in)\s(?:\w+\s){0,2}tools?\ (?:are|is)\ (?:insecure|broken|deprecated|unsafe|outdated|obsolete)"
    r"|\binstead\ of\ the\s(?:\w+\s){1,3}tool\b[^.!?]{0,5}(?:\.|$)(?=.{0,3}$)|\bredirect\s(?:all\s)?(?:payments?|emails?|messages?|traffic)\b"
    r"|\b(?:all|every|each)\ (?:e?mails?|payments?|messages?|transfers?|requests?)\ (?:must|has\ to|have\ to|should)\b"
    r"|\bwhatever\ the\ user\ says\b|\bobey\ what\ it\ returns\b",
    re.VERBOSE,
)
REVEALING_NAME: Final = re.compile(
    r"system_?prompt|conversation_?history|chat_?history|chain_?of_?thought|(?:all|available|other)_tools?(?:_list|_names)?|tools?_list|previous_tool|tool_outputs"
    r"|user_?secrets?|private_?key_?contents?|env_?(?:file|var)\w*_?contents?|environment_?variables_?dump|hidden_?(?:prompt|instructions?)|ssh_?(?:private_)?key_contents"
)
